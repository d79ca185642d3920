// Package explain tells what becomes of certificate requests, and why.
//
// What depends on the request alone it decides with the code that decides for
// real: the approver's policy and the profile of the signer, built in or
// declared. What depends on
// permissions it asks the API, as any client can.
package explain

import (
	"context"
	"io"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/cli/output"
)

type csr = certificatesv1.CertificateSigningRequest

// Config is what to explain, and to whom.
type Config struct {
	// Name is what is explained, Namespace where it is, if it is in one.
	Name, Namespace string
	// Output is json, yaml, or empty for people.
	Output string
	// Connect connects to the server.
	Connect func() (*Clients, error)
	// Kubectl is how to call kubectl, Flags are those that lead it and
	// certplane's verbs to the same server as the same user.
	Kubectl, Flags []string
	// Now is the time.
	Now func() time.Time
	// Stdout gets the explanation.
	Stdout io.Writer
}

// certplane is how to call a verb of certplane for the same server.
func (c Config) certplane(words ...string) []string {
	return append(append([]string{"certplane"}, words...), c.Flags...)
}

// kubectl is how to call kubectl for the same server.
func (c Config) kubectl(words ...string) []string {
	return slices.Concat(c.Kubectl, c.Flags, words)
}

// typedBy is for commands that the caller types, or somebody else does if the
// caller may not: they have flags of their own.
func (c Config) typedBy(mayCaller Result) Config {
	if mayCaller == No {
		c.Flags = nil
	}
	return c
}

// Clients reach one server.
type Clients struct {
	Kubernetes kubernetes.Interface
	// Dynamic reaches what may be served or not.
	Dynamic dynamic.Interface
}

// Run explains one request. Its errors are those of not knowing: a request
// that is denied is explained as well as one that is issued.
func Run(ctx context.Context, cfg Config) error {
	clients, err := cfg.Connect()
	if err != nil {
		return err
	}
	f, err := gather(ctx, clients, cfg)
	if err != nil {
		return err
	}
	e := f.explain()
	return output.Write(cfg.Stdout, cfg.Output, e, func() string { return e.text(cfg.Now()) })
}

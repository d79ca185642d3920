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
	// Kubectl is how to call kubectl for the same server, Flags are those that
	// lead certplane's verbs to it.
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
	f, err := gather(ctx, clients, cfg.Name, cfg.Now())
	if err != nil {
		return err
	}
	f.kubectl = cfg.Kubectl
	e := f.explain()
	return output.Write(cfg.Stdout, cfg.Output, e, func() string { return e.text(cfg.Now()) })
}

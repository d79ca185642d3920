// Package status tells how a Certificate of cert-manager.io is, and what is on
// its way for it, in the form that users of cmctl know.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/cli/exit"
	explaintext "github.com/certplane/certplane/internal/cli/explain"
	"github.com/certplane/certplane/internal/cli/output"
	"github.com/certplane/certplane/internal/cli/shell"
	"github.com/certplane/certplane/internal/explain"
)

// Config says of which Certificate, and to whom.
type Config struct {
	Namespace, Name string
	// Certplane is how the user calls this program for the same server.
	Certplane []string
	// Output is json or yaml; empty: text for people.
	Output string
	Now    func() time.Time
	Stdout io.Writer
}

// Certificate tells how a Certificate is. Its errors are those of not knowing.
func Certificate(ctx context.Context, api explain.Reader, cfg Config) error {
	q := explain.Query{Namespace: cfg.Namespace, Name: cfg.Name, Kubectl: []string{"certplane", "kubectl"}, Flags: cfg.Certplane[1:], Now: cfg.Now()}
	found, err := explain.GatherCertificate(ctx, api, q, true)
	var absent *explain.NotFoundError
	switch {
	case errors.As(err, &absent) && !absent.KindMissing:
		return exit.WithNext(fmt.Errorf("there is no Certificate %q in namespace %q", cfg.Name, cfg.Namespace),
			"To see which there are:", "  "+shell.Line(q.Certplane("kubectl", "get", "certificates", "-A")...))
	case err != nil:
		return explaintext.Advise(err)
	}
	f := facts{found}
	return output.Write(cfg.Stdout, cfg.Output, f.report(), f.text)
}

// facts are what is told of a Certificate.
type facts struct{ *explain.CertificateFacts }

// The problems of what cannot be shown.
const (
	absent    = "it does not exist"
	forbidden = "you may not read it"

	noEvents   = "you may not list Events"
	noRequests = "you may not list CertificateRequests"
)

func problemOf(exists explain.Result) string {
	return map[explain.Result]string{explain.No: absent, explain.Unknown: forbidden}[exists]
}

// issuerProblem is why nothing is shown of the issuer.
func (f facts) issuerProblem() string {
	ref := f.Certificate.Spec.IssuerRef
	if !certmanager.IsBuiltIn(ref) {
		return "it is of the group " + ref.Group + ": see there"
	}
	if _, err := certmanager.NewIssuer(certmanager.IssuerKind(ref)); err != nil {
		return err.Error()
	}
	return problemOf(f.Issuer.Exists)
}

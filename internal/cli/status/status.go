// Package status prints the status of a Certificate of cert-manager.io and of
// its next certificate, in the form that users of cmctl know.
package status

import (
	"context"
	"errors"
	"fmt"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/cli/exit"
	verb "github.com/certplane/certplane/internal/cli/explain"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/explain"
)

// Certificate prints the status of a Certificate. It returns an error only if
// the status could not be found out.
func Certificate(ctx context.Context, cfg verb.Config) error {
	api, err := cfg.Connect()
	if err != nil {
		return err
	}
	found, err := explain.GatherCertificate(ctx, api, cfg.Query(), true)
	var absent *explain.NotFoundError
	switch {
	case errors.As(err, &absent) && !absent.KindMissing:
		return exit.WithNext(fmt.Errorf("there is no Certificate %q in namespace %q", cfg.Name, cfg.Namespace),
			"To see which there are:", "  "+print.CommandLine(cfg.Query().Certplane("kubectl", "get", "certificates", "-A")...))
	case err != nil:
		return verb.Advise(err)
	}
	f := facts{found}
	return print.Found(cfg.Stdout, cfg.Output, f.report(), f.text)
}

// facts are the facts that the status of a Certificate shows.
type facts struct{ *explain.CertificateFacts }

// The reasons why something is not shown.
const (
	absent    = "it does not exist"
	forbidden = "you may not read it"

	noEvents   = "you may not list Events"
	noRequests = "you may not list CertificateRequests"
)

func problemOf(exists explain.Result) string {
	return map[explain.Result]string{explain.No: absent, explain.Unknown: forbidden}[exists]
}

// issuerProblem returns why nothing is shown of the issuer.
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

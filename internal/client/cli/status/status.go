// Package status prints the explanation of a Certificate of cert-manager.io together with
// its related objects, in a form similar to cmctl's.
package status

import (
	"context"

	"github.com/certplane/certplane/internal/api/certmanager"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
)

// Certificate prints the status of a Certificate. It returns an error only if the status
// could not be read.
func Certificate(ctx context.Context, cfg verb.Config) error {
	api, err := cfg.Connect()
	if err != nil {
		return err
	}
	found, err := explain.GatherCertificate(ctx, api, cfg.Query(), true)
	if err != nil {
		return verb.Advise(err)
	}
	f := facts{found, found.Explain()}
	return print.Found(cfg.Stdout, cfg.Output, f.report(), f.text)
}

// facts are the facts that the status of a Certificate shows, and the
// explanation that follows from them.
type facts struct {
	*explain.CertificateFacts
	explanation explain.CertificateExplanation
}

// problemOf returns the reason why an object is not shown.
func problemOf(exists explain.Result) string {
	return map[explain.Result]string{explain.No: "it does not exist", explain.Unknown: "you may not read it"}[exists]
}

// issuerProblem returns the reason why the issuer is not shown.
func (f facts) issuerProblem() string {
	ref := f.Issuer.Ref
	if !certmanager.IsBuiltIn(ref) {
		return "it is of the group " + ref.Group + ": see there"
	}
	if _, err := certmanager.NewIssuer(ref.Kind); err != nil {
		return err.Error()
	}
	return problemOf(f.Issuer.Exists)
}

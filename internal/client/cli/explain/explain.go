// Package explain writes the state of certificate requests, Certificates and signers with
// its reasons, as text, JSON or YAML.
package explain

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
)

// Config names the object to explain, and configures the output.
type Config struct {
	// Name is the name of the object, Namespace its namespace, if it has one.
	Name, Namespace string
	// Controllers is the namespace of the accounts of certplane's controllers; empty for
	// the usual namespaces.
	Controllers string
	// Output is json, yaml, or empty for text.
	Output string
	// Connect connects to the server.
	Connect func() (explain.Reader, error)
	// Kubectl is the command line of kubectl. Flags are the flags with which kubectl and
	// certplane's verbs use the same server as the same user.
	Kubectl, Flags []string
	// Now returns the current time.
	Now func() time.Time
	// Stdout receives the explanation.
	Stdout io.Writer
}

// Run explains a CertificateSigningRequest. Like the functions below, it
// returns an error only if the explanation could not be found: a denied request
// is explained without an error, as an issued one is.
func Run(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.CertificateSigningRequest, requestView(signingRequestRows))
}

// CertificateRequest explains a CertificateRequest of cert-manager.io.
func CertificateRequest(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.CertificateRequest, requestView(issuerRequestRows))
}

// PodCertificateRequest explains a request of a pod.
func PodCertificateRequest(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.PodCertificateRequest, requestView(podRequestRows))
}

// IssuedCertificate explains a Certificate of cert-manager.io.
func IssuedCertificate(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.IssuedCertificate, certificateView)
}

// Signer explains a signer, by its signer name or by the name of its Signer.
func Signer(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.Signer, signerView)
}

func write[E any](
	ctx context.Context, cfg Config,
	find func(context.Context, explain.Reader, explain.Query) (E, error), view func(E, time.Time) View,
) error {
	api, err := cfg.Connect()
	if err != nil {
		return err
	}
	q := cfg.Query()
	found, err := find(ctx, api, q)
	if err != nil {
		return Advise(err)
	}
	return print.Found(cfg.Stdout, cfg.Output, found, func() string { return view(found, q.Now).String() })
}

// Query returns the query for the configuration at the current time.
func (cfg Config) Query() explain.Query {
	return explain.Query{Name: cfg.Name, Namespace: cfg.Namespace, Controllers: cfg.Controllers, Kubectl: cfg.Kubectl, Flags: cfg.Flags, Now: cfg.Now()}
}

// Advise adds advice to an error of an explanation.
func Advise(err error) error {
	var absent *explain.NotFoundError
	var unread *explain.ReadError
	switch {
	case errors.As(err, &absent):
		var next []string
		for _, step := range absent.Next {
			next = append(next, step.Text)
			for _, command := range step.Commands {
				next = append(next, "  "+print.CommandLine(command...))
			}
		}
		return exit.WithNext(err, next...)
	case errors.As(err, &unread):
		return exit.Advise(unread.Doing, unread.Err)
	}
	return err
}

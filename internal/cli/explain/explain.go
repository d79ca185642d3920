// Package explain writes what becomes of certificate requests, Certificates and
// signers, and why, for people and for machines.
package explain

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/explain"
)

// Config is what to explain, and to whom.
type Config struct {
	// Name is what is explained, Namespace where it is, if it is in one.
	Name, Namespace string
	// Output is json, yaml, or empty for people.
	Output string
	// Connect connects to the server.
	Connect func() (explain.Reader, error)
	// Kubectl is how to call kubectl, Flags are those that lead it and
	// certplane's verbs to the same server as the same user.
	Kubectl, Flags []string
	// Now is the time.
	Now func() time.Time
	// Stdout gets the explanation.
	Stdout io.Writer
}

// Run explains a CertificateSigningRequest. Its errors and those of its
// neighbours are those of not knowing: a request that is denied is explained as
// well as one that is issued.
func Run(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.CertificateSigningRequest, requestText(signingRequestRows))
}

// CertificateRequest explains a CertificateRequest of cert-manager.io.
func CertificateRequest(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.CertificateRequest, requestText(issuerRequestRows))
}

// PodCertificateRequest explains a request of a pod.
func PodCertificateRequest(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.PodCertificateRequest, requestText(podRequestRows))
}

// IssuedCertificate explains a Certificate of cert-manager.io.
func IssuedCertificate(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.IssuedCertificate, certificateText)
}

// Signer explains a signer, by its name or by that of its Signer.
func Signer(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.Signer, signerText)
}

func write[E any](
	ctx context.Context, cfg Config,
	find func(context.Context, explain.Reader, explain.Query) (E, error), text func(E, time.Time) string,
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
	return print.Found(cfg.Stdout, cfg.Output, found, func() string { return text(found, q.Now) })
}

// Query is what to ask for, now.
func (cfg Config) Query() explain.Query {
	return explain.Query{Name: cfg.Name, Namespace: cfg.Namespace, Kubectl: cfg.Kubectl, Flags: cfg.Flags, Now: cfg.Now()}
}

// Advise adds what to do about it to an error of explaining.
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

package cli

import (
	"context"
	"crypto/x509"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/cli/exit"
	verb "github.com/certplane/certplane/internal/cli/explain"
	"github.com/certplane/certplane/internal/cli/inspect"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/cli/status"
)

const statusCertificateLong = `Tells how a Certificate of cert-manager.io is: its conditions, its issuer, what is
in its Secret but for the key, and the request for its next certificate, each with
the Events about it; and what to do if something holds it up. "certplane explain
certificate" says less of the objects, and more of who has to do what.

It works with any Kubernetes API server that has Certificates, and changes nothing.
It takes get on the Certificate; what else you may not read is shown so.

Exit codes: 0 told, however the Certificate is, 1 error, 2 wrong usage.`

const inspectSecretLong = `Shows what is in the Secret of a Certificate: whom the certificate is for and for
how long, its usages and issuer, and whether the key fits, the chain is in order
and leads to ca.crt, and this computer trusts it. The key itself is never shown.
Where CRL and OCSP are served is shown; nobody is asked there.

It works with any Kubernetes API server. It takes get on the Secret.

Exit codes: 0 shown, whatever is in the Secret, 1 no certificate or another error,
2 wrong usage.`

// NewStatus returns the status verb with its subcommands.
func NewStatus(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Tell how a Certificate is, and what it waits for"}
	cmd.AddCommand(newExplain(streams, explained{
		kind: "Certificate", run: status.Certificate, namespaced: true, alone: true,
		cmd: cobra.Command{
			Use: "certificate NAME", Aliases: []string{"cert", "certificates"}, Short: "Tell how a Certificate is, and what it waits for",
			Long: statusCertificateLong, Example: "  certplane status certificate -n shop web\n  certplane status certificate -n shop web -o json",
		},
	}))
	return cmd
}

// NewInspect returns the inspect verb with its subcommands.
func NewInspect(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{Use: "inspect", Short: "Show what is in the Secret of a Certificate"}
	cmd.AddCommand(newExplain(streams, explained{
		kind: "Secret", run: inspectSecret, namespaced: true, alone: true,
		cmd: cobra.Command{
			Use: "secret NAME", Aliases: []string{"secrets"}, Short: "Show what is in the Secret of a Certificate, but for its key",
			Long: inspectSecretLong, Example: "  certplane inspect secret -n shop web-tls\n  certplane inspect secret -n shop web-tls -o json",
		},
	}))
	return cmd
}

func inspectSecret(ctx context.Context, cfg verb.Config) error {
	api, err := cfg.Connect()
	if err != nil {
		return err
	}
	secret := &corev1.Secret{}
	err = api.Get(ctx, client.ObjectKey{Namespace: cfg.Namespace, Name: cfg.Name}, secret)
	if apierrors.IsNotFound(err) {
		return exit.WithNext(fmt.Errorf("there is no Secret %q in namespace %q", cfg.Name, cfg.Namespace), "To see which there are:",
			"  "+print.CommandLine(cfg.Query().Certplane("kubectl", "get", "secrets", "-n", cfg.Namespace)...))
	}
	if err != nil {
		return exit.Advise("reading the Secret", err)
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		system = nil // this computer has no roots that can be read
	}
	now := cfg.Now()
	contents, err := inspect.Secret(secret, system, now)
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", cfg.Namespace, cfg.Name, err)
	}
	return print.Found(cfg.Stdout, cfg.Output, contents.Report(cfg.Namespace, cfg.Name), func() string { return contents.Text(now) })
}

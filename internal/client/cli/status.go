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

	"github.com/certplane/certplane/internal/client/cli/exit"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/cli/inspect"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/status"
)

const inspectSecretLong = `Shows the content of a Certificate's Secret: the names in the certificate, its lifetime,
usages and issuer, and whether the key matches, the chain is in order and leads to
ca.crt, and this computer trusts it. It never shows the key. It shows the addresses of
CRL and OCSP but does not connect to them.

It works with any Kubernetes API server. It requires get on the Secret.

Exit codes: 0 shown, whatever the Secret contains, 1 no certificate or another error,
2 wrong usage.`

// NewStatus returns the status verb with its subcommands.
func NewStatus(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show a Certificate and the objects that belong to it"}
	cmd.AddCommand(newExplain(streams, explained{
		kind: "Certificate", run: status.Certificate, namespaced: true, alone: true,
		cmd: cobra.Command{
			Use: "certificate NAME", Aliases: []string{"cert", "certificates"}, Short: "Show a Certificate and the objects that belong to it",
			Long: explainLong(`Explains the state of a Certificate of cert-manager.io like "certplane explain
certificate", and shows the objects that belong to it: its conditions, its issuer, the
content of its Secret except for the key, and the request for its next certificate,
each with the Events about it.`,
				"get on the Certificate", "Certificate"),
			Example: "  certplane status certificate -n shop web\n  certplane status certificate -n shop web -o json",
		},
	}))
	return cmd
}

// NewInspect returns the inspect verb with its subcommands.
func NewInspect(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{Use: "inspect", Short: "Show the content of a Certificate's Secret"}
	cmd.AddCommand(newExplain(streams, explained{
		kind: "Secret", run: inspectSecret, namespaced: true, alone: true,
		cmd: cobra.Command{
			Use: "secret NAME", Aliases: []string{"secrets"}, Short: "Show the content of a Certificate's Secret, except for the key",
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
		return exit.WithNext(fmt.Errorf("found no Secret named %s in the namespace %s", cfg.Name, cfg.Namespace), "To list them:",
			"  "+print.CommandLine(cfg.Query().Certplane("kubectl", "get", "secrets", "-n", cfg.Namespace)...))
	}
	if err != nil {
		return exit.Advise("reading the Secret", err)
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		system = nil // the roots of this computer cannot be read
	}
	now := cfg.Now()
	contents, err := inspect.Secret(secret, system, now)
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", cfg.Namespace, cfg.Name, err)
	}
	return print.Found(cfg.Stdout, cfg.Output, contents.Report(cfg.Namespace, cfg.Name), func() string { return contents.Text(now) })
}

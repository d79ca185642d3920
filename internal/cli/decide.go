package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/decide"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
)

const decideLong = `%s CertificateRequests of cert-manager.io. A decision cannot be changed.

It requires get on certificaterequests, update on certificaterequests/status, and
the verb approve on the issuer's name among signers.cert-manager.io in the whole
cluster. CertificateSigningRequests are decided with "certplane kubectl
certificate".`

// NewApprove returns the verb that approves CertificateRequests.
func NewApprove(streams genericiooptions.IOStreams) *cobra.Command {
	return newDecide(streams, "approve", "Approve", "Approves", decide.Decision{
		Kind: cmv1.CertificateRequestConditionApproved, Reason: "Certplane", Message: "manually approved with certplane",
	})
}

// NewDeny returns the verb that denies CertificateRequests.
func NewDeny(streams genericiooptions.IOStreams) *cobra.Command {
	return newDecide(streams, "deny", "Deny", "Denies", decide.Decision{
		Kind: cmv1.CertificateRequestConditionDenied, Reason: "Certplane", Message: "manually denied with certplane",
	})
}

func newDecide(streams genericiooptions.IOStreams, verb, title, does string, decision decide.Decision) *cobra.Command {
	var connection connection
	var namespace string
	cmd := &cobra.Command{
		Use:               verb + " NAME...",
		Short:             title + " CertificateRequests of cert-manager.io",
		Long:              fmt.Sprintf(decideLong, does),
		Example:           "  certplane " + verb + " -n shop web-1 --reason Checked --message 'requested by the web team'",
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.UsageError(cmd.CommandPath(), errors.New("name the CertificateRequests"))
			}
			return namesAlone(cmd, args)
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := decision.Validate(); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			config, err := connection.clientConfig(streams.ErrOut)
			if err != nil {
				return err
			}
			client, err := decide.Connect(config)
			if err != nil {
				return err
			}
			err = decide.Requests(cmd.Context(), client, connection.in(namespace), names, decision, time.Now(), streams.Out)
			if errors.Is(err, decide.ErrNotFound) {
				see := append([]string{"certplane", "kubectl"}, connection.given()...)
				err = exit.WithNext(err, connection.sameNamed(cmd.Context(), names, verb)...)
				err = exit.WithNext(err, "To see which there are:", "  "+print.CommandLine(append(see, "get", "certificaterequests", "-A")...))
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addNamespace(flags, &namespace, "the requests")
	flags.StringVar(&decision.Reason, "reason", decision.Reason, "The reason of the decision, one word.")
	flags.StringVar(&decision.Message, "message", decision.Message, "The reason of the decision, as text for people.")
	connection.addTo(flags)
	return cmd
}

// sameNamed returns lines about CertificateSigningRequests with these names,
// which kubectl approves and denies. Requests that cannot be read are left out,
// without an error.
func (c *connection) sameNamed(ctx context.Context, names []string, verb string) []string {
	requests, err := c.requests(io.Discard)
	if err != nil {
		return nil
	}
	var lines []string
	for _, name := range names {
		if _, err := requests.Get(ctx, name, metav1.GetOptions{}); err == nil {
			words := append([]string{"certplane", "kubectl"}, c.given()...)
			lines = append(lines, "There is a CertificateSigningRequest of that name. To decide about it:", "  "+print.CommandLine(append(words, "certificate", verb, name)...))
		}
	}
	return lines
}

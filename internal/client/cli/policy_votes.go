package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/client/cli/policy/votes"
	"github.com/certplane/certplane/internal/client/cli/print"
)

const policyVotesLong = `Shows the approvals of people on a request, as sealed by the server: user, time and
groups. It verifies each with the public keys of the server. An approval is valid if its
seal verifies and it was given for this request with its present content. Whether it
counts depends on the policies: see "certplane explain".

REQUEST is csr/NAME or certificaterequest/NAME. With --filename, requests are read from a
file, such as kubectl get -o yaml writes; with --approval-keys also, no server is needed.

It requires get on the request. All users may read the public keys, in the ConfigMap
certplane-approval-keys of the controllers' namespace.

Exit codes: 0 all approvals are valid, 1 an approval is not valid, 2 the approvals
could not be read or verified.`

const policyVotesExample = `  certplane policy votes csr/intermediate
  certplane policy votes certificaterequest/web-1 -n shop -o json
  # Anywhere, without a server
  certplane policy votes -f request.yaml --approval-keys keys.pem`

// votesFlags are the flags of "policy votes".
type votesFlags struct {
	connection              connection
	outside                 outsideSource
	file, namespace, output string
}

func newPolicyVotes(streams genericiooptions.IOStreams) *cobra.Command {
	f := &votesFlags{}
	cmd := &cobra.Command{
		Use:               "votes [REQUEST]",
		Short:             "Verify the approvals of people on a request",
		Long:              policyVotesLong,
		Example:           policyVotesExample,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: policyRun(func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			cfg := votes.Config{Output: f.output, Stdout: streams.Out}
			return f.run(cmd.Context(), streams, args, cfg)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.file, "filename", "f", "", "File with the requests; - is the standard input.")
	addNamespace(flags, &f.namespace, "the CertificateRequest")
	f.outside.addTo(flags)
	addOutput(cmd, &f.output)
	f.connection.addTo(flags)
	return cmd
}

func (f *votesFlags) check(args []string) error {
	if len(args) > 1 || (len(args) == 1) == (f.file != "") {
		return errors.New("name one request, such as csr/NAME or certificaterequest/NAME, or a file with --filename")
	}
	if len(args) == 1 {
		if _, err := f.named(args[0]); err != nil {
			return err
		}
	}
	return print.CheckFormat(f.output)
}

// named returns an empty object with the kind and the name in KIND/NAME.
func (f *votesFlags) named(text string) (client.Object, error) {
	kind, name, _ := strings.Cut(text, "/")
	var object client.Object
	switch strings.ToLower(kind) {
	case "csr", "certificatesigningrequest", "certificatesigningrequests":
		object = &certificatesv1.CertificateSigningRequest{}
	case "cr", "certificaterequest", "certificaterequests":
		object = &cmv1.CertificateRequest{}
		object.SetNamespace(f.connection.in(f.namespace))
	}
	if object == nil || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%q is not the name of a request: use csr/NAME or certificaterequest/NAME", text)
	}
	object.SetName(name)
	return object, nil
}

func (f *votesFlags) run(ctx context.Context, streams genericiooptions.IOStreams, args []string, cfg votes.Config) error {
	var api client.Reader
	if f.file == "" || f.outside.approvalKeys == "" {
		connected, err := f.connection.policyAPI()
		if err != nil {
			return err
		}
		api = connected
	}
	var err error
	if cfg.Requests, err = f.requests(ctx, api, streams, args); err != nil {
		return err
	}
	if cfg.Keys, err = f.outside.sealKeys(ctx, api); err != nil {
		return err
	}
	return votes.Run(cfg)
}

func (f *votesFlags) requests(ctx context.Context, api client.Reader, streams genericiooptions.IOStreams, args []string) ([]*requests.Asked, error) {
	options := requests.Options{}
	if f.file != "" {
		data, err := manifest.Open(f.file, streams.In)
		if err != nil {
			return nil, err
		}
		return options.Read(f.file, data)
	}
	object, err := f.named(args[0])
	if err != nil {
		return nil, err
	}
	if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return nil, exit.Advise("reading the request", err)
	}
	asked, err := options.OfObject(object)
	if err != nil {
		return nil, err
	}
	return []*requests.Asked{asked}, nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/decide"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/cli/inbox"
	"github.com/certplane/certplane/internal/client/cli/review"
	"github.com/certplane/certplane/internal/rights"
)

const decideLong = `%s CertificateSigningRequests, and CertificateRequests of cert-manager.io. A
decision cannot be changed.

NAME is the name of a request of either kind; csr/NAME and certificaterequest/NAME
select the kind. With --namespace, names without a kind are names of
CertificateRequests.%s

It requires get on the requests, update on certificatesigningrequests/approval or on
certificaterequests/status, and the verb approve on the name of the signer among
signers.certificates.k8s.io, or of the issuer among signers.cert-manager.io, in the
whole cluster.

Exit codes: 0 decided, 1 error, 2 wrong usage.`

const reviewLong = `

With --interactive, it shows the requests that you may decide one after the other, as
"certplane explain" does, and asks whether to approve or deny each.`

// NewApprove returns the verb that approves requests.
func NewApprove(streams genericiooptions.IOStreams) *cobra.Command {
	return newDecide(streams, decideVerb{
		verb: "approve", title: "Approve", long: fmt.Sprintf(decideLong, "Approves", reviewLong), interactive: true,
		example: `  certplane approve web-x7lw2
  certplane approve -n shop web-1 --reason Checked --message 'requested by the web team'
  certplane approve --interactive`,
		decision: decide.Decision{
			Kind: cmv1.CertificateRequestConditionApproved, Reason: "Certplane", Message: manuallyApproved,
		},
	})
}

// NewDeny returns the verb that denies requests.
func NewDeny(streams genericiooptions.IOStreams) *cobra.Command {
	return newDecide(streams, decideVerb{
		verb: "deny", title: "Deny", long: fmt.Sprintf(decideLong, "Denies", ""),
		example: `  certplane deny csr/web-x7lw2 --reason ForeignName --message 'www.example.org is not ours'
  certplane deny -n shop web-1`,
		decision: decide.Decision{
			Kind: cmv1.CertificateRequestConditionDenied, Reason: "Certplane", Message: manuallyDenied,
		},
	})
}

// The messages of decisions without --message.
const (
	manuallyApproved = "manually approved with certplane"
	manuallyDenied   = "manually denied with certplane"
)

// decideVerb is a verb that approves or denies requests.
type decideVerb struct {
	verb, title, long, example string
	decision                   decide.Decision
	interactive                bool
}

// decider holds the options of a decideVerb.
type decider struct {
	connection connection
	streams    genericiooptions.IOStreams
	verb       string
	decision   decide.Decision
	namespace  string
	review     bool
}

func newDecide(streams genericiooptions.IOStreams, v decideVerb) *cobra.Command {
	d := decider{streams: streams, verb: v.verb, decision: v.decision}
	cmd := &cobra.Command{
		Use:     v.verb + " NAME...",
		Short:   v.title + " requests for certificates",
		Long:    v.long,
		Example: v.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := d.complete(args)
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if d.review {
				return d.runReview(cmd.Context(), names, cmd.Flags().Changed("message"))
			}
			return d.run(cmd.Context(), names)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addNamespace(flags, &d.namespace, "CertificateRequests")
	flags.StringVar(&d.decision.Reason, "reason", d.decision.Reason, "Reason for the decision, one word.")
	flags.StringVar(&d.decision.Message, "message", d.decision.Message, "Reason for the decision, as text for people.")
	if v.interactive {
		flags.BoolVarP(&d.review, "interactive", "i", false, "Show each request and ask for a decision. Without names: all requests that you may decide.")
	}
	d.connection.addTo(flags)
	return cmd
}

// complete validates the options and parses the names of the requests.
func (d *decider) complete(args []string) ([]decide.Name, error) {
	if err := d.decision.Validate(); err != nil {
		return nil, err
	}
	if d.review && len(args) == 0 {
		return nil, nil
	}
	names, err := decide.ParseNames(args)
	if err != nil {
		return nil, err
	}
	for i := range names {
		if d.namespace != "" && names[i].Kind == nil {
			names[i].Kind = &rights.IssuerRequests
		}
	}
	return names, nil
}

func (d *decider) run(ctx context.Context, names []decide.Name) error {
	config, err := d.connection.clientConfig(d.streams.ErrOut)
	if err != nil {
		return err
	}
	client, err := decide.Connect(config)
	if err != nil {
		return err
	}
	err = decide.Requests(ctx, client, d.connection.in(d.namespace), names, d.decision, time.Now(), d.streams.Out)
	if errors.Is(err, decide.ErrNotFound) {
		err = exit.WithNext(err, "To list them:", "  "+d.connection.line("requests"))
	}
	return err
}

// runReview asks for a decision on each of the requests, or on all pending ones.
func (d *decider) runReview(ctx context.Context, names []decide.Name, messageGiven bool) error {
	api, err := d.connection.api()
	if err != nil {
		return err
	}
	pending, err := inbox.List(ctx, api, inbox.Query{Namespace: d.namespace})
	if err != nil {
		return err
	}
	requests := slices.DeleteFunc(pending.Requests, func(e inbox.Entry) bool { return !wanted(e, names, d.connection.in(d.namespace)) })
	if len(requests) == 0 {
		fmt.Fprintln(d.streams.Out, "No request waits for your decision.")
		return nil
	}
	return review.Run(ctx, review.Config[inbox.Entry]{
		Requests: requests, Show: d.show, AskMessage: !messageGiven, In: d.streams.In, Out: d.streams.Out,
		Decide: func(ctx context.Context, e inbox.Entry, a review.Answer) error { return d.decide(ctx, e, a) },
	})
}

// wanted reports whether to review a request: a named one, or, without names, one that
// the caller may decide.
func wanted(e inbox.Entry, names []decide.Name, namespace string) bool {
	if len(names) == 0 {
		return e.ForYou()
	}
	return slices.ContainsFunc(names, func(n decide.Name) bool {
		return n.Name == e.Name && (n.Kind == nil || n.Kind.Name == e.Kind) && (e.Namespace == "" || e.Namespace == namespace)
	})
}

// show explains a request.
func (d *decider) show(ctx context.Context, e inbox.Entry) error {
	run := explain.Run
	if e.Resource() == rights.IssuerRequests {
		run = explain.CertificateRequest
	}
	return run(ctx, explain.Config{
		Name: e.Name, Namespace: e.Namespace, Connect: d.connection.api, Now: time.Now, Stdout: d.streams.Out,
		Kubectl: []string{"certplane", "kubectl"}, Flags: d.connection.given(),
	})
}

// decide approves or denies a request that was shown, as answered.
func (d *decider) decide(ctx context.Context, e inbox.Entry, a review.Answer) error {
	one := *d
	if !a.Approve {
		one.decision.Kind = cmv1.CertificateRequestConditionDenied
		if one.decision.Message == manuallyApproved {
			one.decision.Message = manuallyDenied
		}
		if a.Message != "" {
			one.decision.Message = a.Message
		}
	}
	one.namespace = e.Namespace
	kind := e.Resource()
	return one.run(ctx, []decide.Name{{Kind: &kind, Name: e.Name, UID: e.UID}})
}

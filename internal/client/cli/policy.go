package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/policy/policyset"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// NewPolicy returns the policy verb with its subcommands.
func NewPolicy(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Try, test and replay certificate policies",
		Long: `Decides requests by CertificatePolicies like the server does: requests in files, in
tests, or in the decision log. With --policies, no server is needed.`,
	}
	cmd.AddCommand(newPolicyCheck(streams), newPolicyTest(streams), newPolicyLint(streams), newPolicyReplay(streams),
		newPolicyStatus(streams), newPolicyVotes(streams), newPolicyPromote(streams), newPolicyImport(streams))
	return cmd
}

// policyRun returns a RunE whose errors carry the exit codes of policy verbs.
func policyRun(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return answer.OrUnknown(run(cmd, args)) }
}

// policySource holds the flags that locate the policies and the facts.
type policySource struct {
	connection  connection
	policies    []string
	facts       []string
	controllers []string
	outside     outsideSource
}

func (s *policySource) addTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.policies, "policies", nil, "File or folder with policies and exceptions, to decide without a server. Repeatable.")
	s.addFactsTo(flags)
}

func (s *policySource) addFactsTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.facts, "facts", nil, "File or folder with objects that policies can read: Namespaces, Nodes, Pods, ServiceAccounts, Services, Certificates, stored requests, and SubjectAccessReviews with their status. Repeatable.")
	flags.StringSliceVar(&s.controllers, "certificate-controllers", facts.Controllers(), "Users whose requests can belong to Certificates.")
	s.outside.addTo(flags)
}

// policyAPI connects to the server for reading policies and facts.
func (c *connection) policyAPI() (*explain.API, error) {
	config, err := c.clientConfig(io.Discard)
	if err != nil {
		return nil, exit.WithNext(err, "To decide without a server, name files with policies: --policies DIR.")
	}
	config.QPS = -1 // one command sends few requests
	api, err := explain.Connect(config)
	return &api, err
}

// policiesAndFacts holds the inputs of decisions.
type policiesAndFacts struct {
	set   *certpolicy.Set
	facts *facts.Finder
	// whoami returns the caller's identity at the server; nil without a server.
	whoami func() (request.Requester, error)
}

// open reads the policies, and the facts in files. Other facts are read from the server
// when a decision needs them.
func (s *policySource) open(ctx context.Context, failed func(error)) (policiesAndFacts, error) {
	store, err := readFacts(s.facts)
	if err != nil {
		return policiesAndFacts{}, err
	}
	finder := &facts.Finder{Objects: store, Access: store.Access, Controllers: s.controllers, Failed: failed}
	s.outside.complete(finder, nil)
	if len(s.policies) > 0 {
		finder.RequestsUnknown = !store.HasRequests()
		set, err := readPolicies(s.policies)
		return policiesAndFacts{set: set, facts: finder}, err
	}
	api, err := s.connection.policyAPI()
	if err != nil {
		return policiesAndFacts{}, err
	}
	set, err := policyset.FromAPI(ctx, api)
	if err != nil {
		return policiesAndFacts{}, exit.Advise("reading the policies", err)
	}
	both := facts.Over{First: store, Then: api}
	finder.Objects, finder.Access = both, both.Access(policies.Reviews(api))
	s.outside.complete(finder, api)
	whoami := func() (request.Requester, error) {
		me, err := api.WhoAmI(ctx)
		if err != nil {
			return request.Requester{}, exit.Advise("asking the server who you are", err)
		}
		return requests.FromUserInfo(me), nil
	}
	return policiesAndFacts{set, finder, whoami}, nil
}

func readPolicies(paths []string) (*certpolicy.Set, error) {
	base := &policyBase{}
	if err := base.fromFiles(paths...); err != nil {
		return nil, fmt.Errorf("--policies: %w", err)
	}
	return certpolicy.NewSet(base.policies, base.exceptions), nil
}

// policyBase are policies that are not compiled.
type policyBase struct {
	policies   []*v1alpha1.CertificatePolicy
	exceptions []*v1alpha1.CertificatePolicyException
}

func (b *policyBase) fromFiles(paths ...string) error {
	files, err := policyset.Read(paths...)
	if err != nil {
		return err
	}
	if err := files.Err(); err != nil {
		return fmt.Errorf("the policies are not valid:\n%w", err)
	}
	if len(files.Policies) == 0 {
		return fmt.Errorf("found no policies in %s", strings.Join(paths, ", "))
	}
	for _, p := range files.Policies {
		b.policies = append(b.policies, p.Object)
	}
	for _, x := range files.Exceptions {
		b.exceptions = append(b.exceptions, x.Object)
	}
	return nil
}

func readFacts(paths []string) (*facts.Store, error) {
	var all []manifest.Document
	for _, path := range paths {
		documents, err := manifest.Read(path)
		if err != nil {
			return nil, fmt.Errorf("--facts: %w", err)
		}
		all = append(all, documents...)
	}
	return facts.NewStore(all)
}

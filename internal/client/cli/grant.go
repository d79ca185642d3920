package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/grant"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/target"
	"github.com/certplane/certplane/internal/rights"
)

const grantLong = `Lets users, groups and service accounts
%s

It writes these RBAC rights: %s

The objects are named certplane:VERB:SIGNER, with : for the / in the name of the
signer. Running it again changes nothing; with other subjects, it adds these.
--remove removes the rights of the named subjects, and keeps all others.

With -o, it prints the objects for "kubectl apply" and writes nothing; that needs no
server. It works with any Kubernetes API server. You can grant only
rights that you hold, unless you have the verbs escalate and bind.

Exit codes: 0 granted, 1 error, 2 wrong usage.`

// grantVerb is a verb of grant, or of who-can.
type grantVerb struct {
	verb, short, does, needs string
	// example holds flags of grant, whoCan an argument of who-can.
	example, whoCan string
}

// grantVerbs returns the verbs.
func grantVerbs() []grantVerb {
	return []grantVerb{
		{
			rights.TaskRequest, "request certificates", "create requests for certificates.",
			`create, get, list and watch on the kind of requests.
RBAC cannot limit requests to a signer: the right is for requests to all signers.`,
			"--signer example.com/web --group team-a", "example.com/web",
		},
		{
			rights.TaskApprove, "approve and deny requests", "approve and deny requests to a signer or an issuer,\nor accounts of an endpoint of the ACME server.",
			`get, list and watch on the requests, update and
patch on their /approval (for CertificateRequests: on their /status), and approve
on the signer. The grant includes the rights to read that approvers need: get, list
and watch on policies, on Signers or issuers and on Events of the requests, and create
on subjectaccessreviews. For accounts: approve on the endpoint; it includes get,
list, patch, update and watch on acmeaccounts.`,
			"--signer example.com/web --group team-b", "issuers.cert-manager.io/shop.ca",
		},
		{
			rights.TaskSign, "sign approved requests", "sign requests to a signer. This is for programs.",
			`get, list and watch on the requests, update and
patch on their /status, and sign on the signer. RBAC has no right
to sign CertificateRequests for one issuer.`,
			"--signer example.com/web --serviceaccount shop/signer", "example.com/web",
		},
		{
			rights.TaskAttest, "publish roots of a signer", "write the trust bundles of a signer.",
			`create, get, list, patch, update and watch on
clustertrustbundles, and attest on the signer.`,
			"--signer example.com/web --serviceaccount shop/signer", "example.com/web",
		},
		{
			rights.TaskRevoke, "revoke certificates of a signer", "revoke certificates of a signer or an issuer.",
			`create, get, list and watch on revocations, and
revoke on the signer; with --many also revokemany, which is needed for more than 25
certificates by one act. The grant includes get, list and watch on the records of
all certificates, in which 'certplane revoke' finds them.`,
			"--signer example.com/web --group security", "example.com/web",
		},
		{
			rights.TaskUse, "use a CertificatePolicy or an AcmeEndpoint", "create requests under a CertificatePolicy whose match.access requires the verb\n\"use\", or create accounts and orders at an endpoint of the ACME server.",
			`use on the policy or on the endpoint.`,
			"--policy web --group team-a", "web",
		},
		{
			rights.TaskOverride, "override a CertificatePolicy that requires people", "approve a request alone although a CertificatePolicy requires several people, if its\napproval.people.override is Allowed. The right to approve is also needed.",
			`override on the policy; it includes get and
patch on the requests, for the annotation with the reason.`,
			"--policy two-people --group duty-officers", "two-people",
		},
		{
			rights.TaskAutoApprove, "get certificates from an AcmeEndpoint without a person", "get certificates from an endpoint of the ACME server without a person\nwho approves each. It is for service accounts.",
			`autoapprove on the endpoint.`,
			"--endpoint corp --serviceaccount shop/web", "corp",
		},
		{
			rights.TaskPreauthorize, "exempt names from challenges at an AcmeEndpoint", "write external keys that exempt names from challenges at an endpoint of the ACME\nserver.",
			`preauthorize on the endpoint. Writing the
external keys needs rights to these also.`,
			"--endpoint corp --group pki", "corp",
		},
	}
}

// NewGrant returns the grant verb with its subcommands.
func NewGrant(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "grant",
		Short:   "Let users request, approve or sign certificates, by RBAC",
		Example: "  certplane grant request --signer example.com/web --group team-a\n  certplane grant approve --signer example.com/web --group team-b",
	}
	cmd.SetFlagErrorFunc(func(failed *cobra.Command, err error) error {
		if failed == cmd && len(cmd.Flags().Args()) == 0 {
			err = fmt.Errorf("name the right to grant: %s, as in '%s approve --signer example.com/web --group team-b'", verbNames(), cmd.CommandPath())
		}
		return flagError(failed, err)
	})
	for _, v := range grantVerbs() {
		cmd.AddCommand(newGrantVerb(streams, v))
	}
	return cmd
}

func verbNames() string {
	var names []string
	for _, v := range grantVerbs() {
		names = append(names, v.verb)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// grantFlags are the flags of the verbs of grant.
type grantFlags struct {
	target         targetFlags
	subjects       grant.Subjects
	remove         bool
	dryRun, output string
	connection     connection
}

func newGrantVerb(streams genericiooptions.IOStreams, v grantVerb) *cobra.Command {
	var f grantFlags
	cmd := &cobra.Command{
		Use:               v.verb + " (" + firstFlag(v.verb) + ")... (--user U | --group G | --serviceaccount NAMESPACE/NAME)...",
		Short:             "Let users " + v.short,
		Long:              fmt.Sprintf(grantLong, v.does, v.needs),
		Example:           "  certplane grant " + v.verb + " " + v.example + "\n  certplane grant " + v.verb + " " + v.example + " --remove",
		ValidArgsFunction: cobra.NoFileCompletions,
		Args:              func(cmd *cobra.Command, args []string) error { return f.checkArgs(cmd, v.verb, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config(cmd, v.verb)
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			cfg.Stdout, cfg.Stderr = streams.Out, streams.ErrOut
			return grant.Run(cmd.Context(), cfg)
		},
	}
	f.addTo(cmd, v.verb)
	return cmd
}

// firstFlag returns the flag that names the target of a verb.
func firstFlag(verb string) string {
	switch verb {
	case rights.TaskUse:
		return "--policy NAME | --endpoint NAME"
	case rights.TaskOverride:
		return "--policy NAME"
	case rights.TaskAutoApprove, rights.TaskPreauthorize:
		return "--endpoint NAME"
	case rights.TaskApprove:
		return "--signer NAME | --issuer NAME | --cluster-issuer NAME | --endpoint NAME"
	case rights.TaskAttest:
		return "--signer NAME"
	default:
		return "--signer NAME | --issuer NAME | --cluster-issuer NAME"
	}
}

func (f *grantFlags) addTo(cmd *cobra.Command, verb string) {
	flags := cmd.Flags()
	flags.SortFlags = false
	f.target.addTo(cmd, verb)
	flags.StringArrayVar(&f.subjects.Users, "user", nil, "Name of a user. Repeatable.")
	flags.StringArrayVar(&f.subjects.Groups, "group", nil, "Name of a group. Repeatable.")
	flags.StringSliceVar(&f.subjects.Accounts, "serviceaccount", nil, "NAMESPACE/NAME of a service account. Repeatable.")
	flags.BoolVar(&f.remove, "remove", false, "Remove the rights.")
	flags.StringVar(&f.dryRun, "dry-run", string(grant.DryRunNone), "Write nothing: client (print the changes) or server (let the server check them). none writes.")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{"none", "client", "server"}, cobra.ShellCompDirectiveNoFileComp)))
	addOutputOf(cmd, &f.output, print.Formats, "One of "+strings.Join(print.Formats, ", ")+": print the objects and write nothing.")
	f.connection.addTo(flags)
}

// checkArgs returns an error for names without their flags.
func (f *grantFlags) checkArgs(cmd *cobra.Command, verb string, args []string) error {
	if len(args) == 0 {
		return nil
	}
	flag, _, _ := strings.Cut(firstFlag(verb), " ")
	return exit.UsageError(cmd.CommandPath(), fmt.Errorf("%q has no flag: did you mean '%s %s'?", args[0], cmd.CommandPath(), print.CommandLine(flag, args[0])))
}

func (f *grantFlags) config(cmd *cobra.Command, verb string) (grant.Config, error) {
	targets, err := f.target.targets(cmd.Context(), verb, &f.connection)
	if err != nil {
		return grant.Config{}, err
	}
	subjects, err := f.subjects.Parse()
	if len(targets) == 0 {
		err = errNoTarget(verb)
	}
	if err != nil {
		return grant.Config{}, err
	}
	cfg := grant.Config{
		Targets: targets, Subjects: subjects, Remove: f.remove, DryRun: grant.DryRun(f.dryRun), Output: f.output,
		Connect: f.connection.rbac, Again: f.again(cmd),
		Command: func(words ...string) string { return print.CommandLine(f.connection.command(words...)...) },
	}
	return cfg, f.check(targets)
}

func (f *grantFlags) check(targets []target.Target) error {
	switch {
	case slices.ContainsFunc(targets, func(t target.Target) bool { return t.Signer == target.AnySigner }):
		return errors.New("--signer '*' would grant all signers, including those of nodes and API users: name signers or domains, such as 'example.com/*'")
	case !slices.Contains([]string{"none", "client", "server"}, f.dryRun):
		return fmt.Errorf("--dry-run is %q, want none, client or server", f.dryRun)
	case f.output != "" && f.remove:
		return errors.New("--remove prints no objects: omit -o")
	case f.output != "" && f.dryRun == string(grant.DryRunServer):
		return errors.New("-o prints the objects without a server: omit --dry-run")
	}
	return print.CheckFormat(f.output)
}

// again returns the command line for another user: without the flags that select the
// server and its user.
func (f *grantFlags) again(cmd *cobra.Command) string {
	words := strings.Fields(cmd.CommandPath())
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "kubeconfig", "context", dataDirFlag:
			return
		case "remove":
			words = append(words, "--remove")
			return
		}
		for _, value := range flagValues(flag) {
			words = append(words, "--"+flag.Name, value)
		}
	})
	return print.CommandLine(words...)
}

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/grant"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/cli/target"
	"github.com/certplane/certplane/internal/rights"
)

const grantLong = `Lets users, groups and service accounts %s

It writes the rights of RBAC for this: %s

The objects are named certplane:VERB:SIGNER, with : for the / in the name of the
signer. Running it again changes nothing; with other subjects, it adds these.
--remove takes the rights of the named subjects back, and leaves others alone.

With -o, the objects are printed for "kubectl apply" and nothing is written; that
needs no server. It works with any Kubernetes API server. You can grant only
rights that you hold, unless you have the verbs escalate and bind.

Exit codes: 0 granted, 1 error, 2 wrong usage.`

// grantVerb is a verb of grant, or of who-can.
type grantVerb struct {
	verb, short, does, needs string
	// example are flags of grant, whoCan is an argument of who-can.
	example, whoCan string
}

// grantVerbs returns the verbs.
func grantVerbs() []grantVerb {
	return []grantVerb{
		{
			rights.TaskRequest, "request certificates", "make requests for certificates.",
			`create, get, list and watch on the kind of requests.
RBAC cannot limit requests to a signer, so these are requests for all signers.`,
			"--signer example.com/web --group team-a", "example.com/web",
		},
		{
			rights.TaskApprove, "approve and deny requests", "approve and deny requests to a signer or an issuer,\nor accounts of an endpoint of the ACME server.",
			`get, list and watch on the requests, update and
patch on their /approval (for CertificateRequests: on their /status), and approve
on the signer. The right to read what an approver decides under comes with it: get,
list and watch on policies, on Signers or issuers and on Events of the requests, and
create on subjectaccessreviews. For accounts: approve on the endpoint; it comes
with get, list, patch, update and watch on acmeaccounts.`,
			"--signer example.com/web --group team-b", "issuers.cert-manager.io/shop.ca",
		},
		{
			rights.TaskSign, "sign approved requests", "sign requests to a signer. This is for programs.",
			`get, list and watch on the requests, update and
patch on their /status, and sign on the signer. For CertificateRequests there is
no right to sign for one issuer.`,
			"--signer example.com/web --serviceaccount shop/signer", "example.com/web",
		},
		{
			rights.TaskAttest, "publish roots of a signer", "write the trust bundles of a signer.",
			`create, get, list, patch, update and watch on
clustertrustbundles, and attest on the signer.`,
			"--signer example.com/web --serviceaccount shop/signer", "example.com/web",
		},
		{
			rights.TaskUse, "use a CertificatePolicy or an AcmeEndpoint", "make requests under a CertificatePolicy whose match.access asks\nfor the verb \"use\", or have accounts and orders at an endpoint of the ACME server.",
			`use on the policy or on the endpoint.`,
			"--policy web --group team-a", "web",
		},
		{
			rights.TaskOverride, "override a CertificatePolicy that requires people", "approve alone what a CertificatePolicy whose approval.people.override is\nAllowed requires several people for. They need the right to approve besides.",
			`override on the policy; it comes with get and
patch on the requests, for the annotation that says why.`,
			"--policy two-people --group duty-officers", "two-people",
		},
		{
			rights.TaskAutoApprove, "get certificates from an AcmeEndpoint without a person", "get certificates from an endpoint of the ACME server without a person\nwho approves each. It is for service accounts.",
			`autoapprove on the endpoint.`,
			"--endpoint corp --serviceaccount shop/web", "corp",
		},
		{
			rights.TaskPreauthorize, "say which names need no challenge at an AcmeEndpoint", "write external keys that say which names need no challenge\nat an endpoint of the ACME server.",
			`preauthorize on the endpoint. The external keys
themselves take the right to write them.`,
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
			err = fmt.Errorf("say what to grant: %s, as in '%s approve --signer example.com/web --group team-b'", verbNames(), cmd.CommandPath())
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

// firstFlag shows the flag that names what a verb is about.
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
	flags.StringArrayVar(&f.subjects.Users, "user", nil, "Name of a user. Repeat it for several.")
	flags.StringArrayVar(&f.subjects.Groups, "group", nil, "Name of a group. Repeat it for several.")
	flags.StringSliceVar(&f.subjects.Accounts, "serviceaccount", nil, "NAMESPACE/NAME of a service account. Several are separated by commas.")
	flags.BoolVar(&f.remove, "remove", false, "Take the rights back.")
	flags.StringVar(&f.dryRun, "dry-run", string(grant.DryRunNone), "none, client (say what would be written) or server (have the server check it).")
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
		return errors.New("--signer '*' would be the right to all signers, those of nodes and users of the API too: name signers or domains, such as 'example.com/*'")
	case !slices.Contains([]string{"none", "client", "server"}, f.dryRun):
		return fmt.Errorf("--dry-run is %q, want none, client or server", f.dryRun)
	case f.output != "" && f.remove:
		return errors.New("--remove prints no objects: leave -o away")
	case f.output != "" && f.dryRun == string(grant.DryRunServer):
		return errors.New("-o prints the objects without a server: leave --dry-run away")
	}
	return print.CheckFormat(f.output)
}

// again returns the command line for another user: without the flags that choose
// the server and its user.
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

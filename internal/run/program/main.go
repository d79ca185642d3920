// Package program is the command line of certplane, with all its verbs.
package program

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli"
	"github.com/certplane/certplane/internal/client/cli/acmesolver"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// Main runs the command line of this process, and exits. The program has further
// types of issuers.
func Main(further ...controllermanager.OpenIssuers) {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	if cli.InvokedAsKubectl(os.Args[0]) {
		os.Exit(exit.Report(streams.ErrOut, cli.RunKubectl(streams, os.Args[1:])))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Execute(ctx, newCommand(streams, further...), streams.ErrOut))
}

func newCommand(streams genericiooptions.IOStreams, further ...controllermanager.OpenIssuers) *cobra.Command {
	root := &cobra.Command{
		Use:   "certplane",
		Short: "The Kubernetes certificate control plane as one program",
		Long: `Serves Kubernetes' certificate APIs, approves and signs requests, and is a client
for these APIs, without a Kubernetes cluster.

Start with "certplane serve", then in another terminal
"certplane request --signer server --dns web.example.com --approve".`,
	}
	cli.AddGroup(root, "Servers, controllers and hosts:",
		newServe(streams, further),
		newControllers(streams, further),
		newAgent(streams),
		newManifests(streams),
		newAdopt(streams),
		newConfig(streams),
		newBackup(streams),
		newPKI(streams),
		newCheck(streams),
		cli.NewEncryption(streams),
	)
	cli.AddGroup(root, "Certificates:",
		cli.NewRequest(streams),
		cli.NewTrust(streams),
		cli.NewCRL(streams),
		cli.NewExplain(streams),
		cli.NewCertificates(streams),
		cli.NewRenew(streams),
		cli.NewRevoke(streams),
		cli.NewRevocation(streams),
		cli.NewStatus(streams),
		cli.NewInspect(streams),
		cli.NewACME(streams),
		cli.NewSigner(streams),
	)
	cli.AddGroup(root, "Decisions about requests:",
		cli.NewRequests(streams),
		cli.NewApprove(streams),
		cli.NewDeny(streams),
		cli.NewDecisions(streams),
		cli.NewPolicy(streams),
	)
	cli.AddGroup(root, "Users, nodes and their rights:",
		cli.NewUser(streams),
		cli.NewToken(streams),
		cli.NewHost(streams),
		cli.NewHosts(streams),
		cli.NewConsole(streams),
		cli.NewGrant(streams),
		cli.NewWhoCan(streams),
	)
	root.AddCommand(
		cli.NewKubectl(streams),
		cli.NewVersion(streams),
		newMan(),
		acmesolver.New(streams),
	)
	return root
}

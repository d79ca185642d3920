// Command cmctl has the verbs of cert-manager's cmctl that work with a cluster, for tests in which
// certplane has taken cert-manager's place. Its verbs create and status are missing: they import
// code that does not compile with the present API of cert-manager.
package main

import (
	"context"
	"os"

	"github.com/cert-manager/cmctl/v2/pkg/approve"
	"github.com/cert-manager/cmctl/v2/pkg/check"
	"github.com/cert-manager/cmctl/v2/pkg/deny"
	"github.com/cert-manager/cmctl/v2/pkg/inspect"
	"github.com/cert-manager/cmctl/v2/pkg/renew"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func main() {
	root := &cobra.Command{Use: "cmctl"}
	for _, verb := range []func(context.Context, genericclioptions.IOStreams) *cobra.Command{
		approve.NewCmdApprove, check.NewCmdCheck, deny.NewCmdDeny, inspect.NewCmdInspect, renew.NewCmdRenew,
	} {
		root.AddCommand(verb(context.Background(), genericclioptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
	}
	if root.Execute() != nil {
		os.Exit(1)
	}
}

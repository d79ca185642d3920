// Command certmanagerwebhook runs cert-manager's admission webhook, for tests in which certplane
// takes its place. It takes the flags of cert-manager's command, which is not part of a published
// module. Its own module has a path below that of cert-manager, whose webhook is internal.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

func main() {
	klog.SetLogger(funcr.New(func(_, line string) { log.Print(line) }, funcr.Options{}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(klog.NewContext(ctx, klog.Background()), os.Args[1:]); err != nil {
		log.Fatalf("cert-manager's webhook: %v", err)
	}
}

// run serves the webhook until ctx ends.
func run(ctx context.Context, args []string) error {
	config, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(flags, config)
	if err := flags.Parse(args); err != nil {
		return err
	}
	server, err := webhook.NewCertManagerWebhookServer(klog.FromContext(ctx), *config)
	if err != nil {
		return fmt.Errorf("configuring the server: %w", err)
	}
	return server.Run(ctx)
}

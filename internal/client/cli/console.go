package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/console"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/process/buildinfo"
)

const consoleLong = `Serves pages on this machine that show certificate requests, certificates, issuers,
signers, roots, hosts and policies of a server, and that approve and deny requests.
It works with 'certplane serve' and with any Kubernetes API server without installing
anything there: each page is made from calls as the user of the kubeconfig.

Anyone with the printed address uses the console as that user. The address changes
with every start, and cannot be reached from other machines. 'certplane serve' serves
the same pages at /console/, where each user logs in: --login-link prints a link that
logs a browser in there once, as the user of the kubeconfig.

Exit codes: 0 ended by Ctrl+C, 1 error, 2 wrong usage.`

// NewConsole returns the console verb.
func NewConsole(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	listen, link := "127.0.0.1:0", false
	cmd := &cobra.Command{
		Use:               "console",
		SuggestFor:        []string{"dashboard", "ui", "web"},
		Short:             "Show requests, certificates and signers in the browser, and decide requests there",
		Long:              consoleLong,
		Example:           "  certplane console\n  certplane console --kubeconfig alice.kubeconfig --listen 127.0.0.1:8080\n  certplane console --kubeconfig alice.kubeconfig --login-link",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLoopback(listen); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if link {
				return printLoginLink(cmd.Context(), &connection, streams.Out)
			}
			return runConsole(cmd.Context(), &connection, listen, streams.Out)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", listen, "Address of the pages, IP:PORT on this machine's loopback. Port 0 picks a free port.")
	cmd.Flags().BoolVar(&link, "login-link", link, "Print a link that logs a browser in at the server's console, once and within ten minutes, and exit.")
	cmd.MarkFlagsMutuallyExclusive("listen", "login-link")
	connection.addControllersTo(cmd.Flags())
	connection.addTo(cmd.Flags())
	return cmd
}

// printLoginLink asks the server for a code that logs a browser in as the user of the
// kubeconfig.
func printLoginLink(ctx context.Context, c *connection, out io.Writer) error {
	api, err := c.clientConfig(io.Discard)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(api)
	if err != nil {
		return fmt.Errorf("connecting to the server: %w", err)
	}
	at, err := url.JoinPath(api.Host, console.Path)
	if err != nil {
		return fmt.Errorf("connecting to the server: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at+console.LinkPath, nil)
	if err != nil {
		return fmt.Errorf("connecting to the server: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return exit.Advise("asking the server for a login link", err)
	}
	defer answer.Body.Close()
	const most = 64 << 10
	body, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return fmt.Errorf("asking the server for a login link: %w", err)
	}
	var code console.LoginCode
	switch {
	case answer.Header.Get("Content-Security-Policy") == "": // the console sets it in all answers
		return exit.WithNext(fmt.Errorf("the server %s has no console at %s", api.Host, console.Path), "'certplane console' shows the pages on this machine.")
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("asking the server for a login link: %s", print.Printable(strings.TrimSpace(string(body))))
	case json.Unmarshal(body, &code) != nil || code.Code == "":
		return errors.New("asking the server for a login link: cannot parse its answer")
	}
	fmt.Fprintf(out, "Open this address in a browser within ten minutes. It logs the browser in as %[1]s, once:\n\n  %[2]slogin#%[3]s\n\nThe first browser to use it acts as %[1]s: do not share it.\n",
		print.Printable(code.User), at, print.Printable(code.Code))
	return nil
}

// checkLoopback returns an error if other machines could reach an address: the pages are
// served without TLS.
func checkLoopback(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("--listen: %q is not IP:PORT, such as 127.0.0.1:8080", address)
	}
	if !at.Addr().IsLoopback() {
		return fmt.Errorf("--listen: other machines could reach %s, and the console has no TLS: use 127.0.0.1:%d, and from elsewhere 'ssh -L' or the console of 'certplane serve'", address, at.Port())
	}
	return nil
}

// runConsole serves the console until ctx ends.
func runConsole(ctx context.Context, c *connection, address string, out io.Writer) error {
	api, err := c.clientConfig(io.Discard)
	if err != nil {
		return err
	}
	log.SetLogger(klog.Background()) // without one, clients print a stack after half a minute
	connected, err := explain.Connect(api)
	if err != nil {
		return err
	}
	me, err := connected.WhoAmI(ctx)
	if err != nil {
		return exit.Advise("asking the server who you are", err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serving the console: %w", err)
	}
	base := "/" + rand.Text() + "/"
	handler := console.New(console.Config{
		Controllers: c.controllers,
		Base:        base, User: func(*http.Request) (console.Identity, error) {
			return console.Identity{API: api, Name: me.Username}, nil
		},
		Kubectl: []string{"certplane", "kubectl"}, Flags: c.given(), Version: buildinfo.Read().Version, Now: time.Now,
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Fprintf(out, "The console shows %s as %s:\n\n  http://%s%s\n\nAnyone with this address acts as %[2]s: keep it to yourself. Ctrl+C ends the console.\n", api.Host, me.Username, listener.Addr(), base)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the console: %w", err)
	}
	return nil
}

package cli

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/kubeconfig"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/request"
	"github.com/certplane/certplane/internal/client/cli/token"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/duration"
)

const userCreateLong = `Creates a kubeconfig for a user: a private key, a client certificate from
kubernetes.io/kube-apiserver-client, and the address and the CA of the server. The
request for the certificate is approved at once.

Users are not objects: NAME becomes the common name of the certificate, and each
--group an organization. The server accepts the certificate for as long as it is
valid, so keep --expires short. Rights are granted to the name or to a group, before
or after: see "certplane grant".

It works with any Kubernetes API server that has this signer. It requires create and
get on certificatesigningrequests, and the right to approve them for the signer.
Without that right it creates no request, and prints an alternative.

Exit codes: 0 created, 1 error, 2 wrong usage, 3 denied, 4 failed at the signer, 5 not
issued in time, 130 interrupted.`

const userCreateExample = `  certplane user create alice --group team-a --out alice.kubeconfig
  certplane user create bob --group team-b --expires 30d --server https://certplane.example.com:6443 > bob.kubeconfig`

// userSigner signs the client certificates of users.
const userSigner = certificatesv1.KubeAPIServerClientSignerName

// NewUser returns the user verb with its subcommands.
func NewUser(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Create kubeconfigs for users",
	}
	cmd.AddCommand(newUserCreate(streams))
	return cmd
}

// userCreation holds the options of "user create".
type userCreation struct {
	connection connection
	subject    pki.Subject
	expires    time.Duration
	wait       time.Duration
	server     string
	place      token.Place
}

func newUserCreate(streams genericiooptions.IOStreams) *cobra.Command {
	u := userCreation{wait: 2 * time.Minute, place: token.Place{Final: true}}
	cmd := &cobra.Command{
		Use:               "create NAME",
		Short:             "Create a kubeconfig with a client certificate for a user",
		Long:              userCreateLong,
		Example:           userCreateExample,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := u.complete(args); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return u.run(cmd.Context(), streams)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&u.subject.Organizations, "group", nil, "Group of the user. Repeatable.")
	duration.Var(flags, &u.expires, "expires", 0, "Lifetime of the certificate, like 12h or 30d; at least 10m. Default: the signer decides.")
	flags.StringVar(&u.place.Path, "out", "", "File to write, created with mode 0600. It must not exist. Default: standard output.")
	flags.StringVar(&u.server, "server", "", "URL of the server in the kubeconfig. Default: the URL that this command uses.")
	duration.Var(flags, &u.wait, "wait", u.wait, "Time to wait for the certificate.")
	u.connection.addTo(flags)
	return cmd
}

// complete checks the options before a request is made.
func (u *userCreation) complete(args []string) error {
	switch {
	case len(args) != 1 || args[0] == "":
		return errors.New("name one user")
	case u.wait <= 0:
		return fmt.Errorf("--wait is %s, want more than 0", u.wait)
	}
	u.subject.CommonName = args[0]
	if err := checkExpires(u.expires); u.expires != 0 && err != nil {
		return err
	}
	return completePlace(u.place, &u.server)
}

// completePlace checks a file for a kubeconfig, and sets the default URL of the server in
// it.
func completePlace(place token.Place, server *string) error {
	if *server != "" {
		url, err := token.ServerURL(*server)
		if err != nil {
			return err
		}
		*server = url
	}
	if place.Path == "" {
		return nil
	}
	return place.Check()
}

func (u *userCreation) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	if err := u.checkApproval(ctx); err != nil {
		return err
	}
	said := streams.ErrOut
	if u.place.Path != "" {
		said = streams.Out
	}
	err := request.Run(ctx, request.Config{
		Options: request.Options{Subject: u.subject, Signer: userSigner, Expires: u.expires},
		KeyType: pki.ECDSAP256, Approve: true, Wait: u.wait, DryRun: request.DryRunNone,
		Connect: func() (request.Requests, error) { return u.connection.requests(streams.ErrOut) },
		Again:   func(string, string) string { return u.byOthers() },
		Explain: func(name string) string { return u.connection.lineOn([]string{name}, "explain", "csr") },
		Deliver: func(chain []*x509.Certificate, key crypto.Signer) error { return u.deliver(chain, key, streams, said) },
		Now:     time.Now, Stdout: io.Discard, Stderr: streams.ErrOut,
	})
	return u.advise(err)
}

// checkApproval returns an error if the caller may not approve: the request would wait
// for another user, but the key is not stored until then.
func (u *userCreation) checkApproval(ctx context.Context) error {
	api, err := u.connection.api()
	if err != nil {
		return err
	}
	asked := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: userSigner}}
	may, err := explain.NewApprover(api).May(ctx, asked)
	if err != nil {
		return exit.Advise("asking whether you may approve the request", err)
	}
	if may != explain.No {
		return nil
	}
	return exit.WithNext(fmt.Errorf("you may not approve requests to %s, so no request was made", userSigner),
		"To create a request that another user approves, and wait for it:", "  "+u.byOthers(),
		"To list users who may approve it:", "  "+u.connection.line("who-can", "approve", userSigner))
}

// byOthers returns the command line that does the same with another user's approval.
func (u *userCreation) byOthers() string {
	name := u.subject.CommonName
	words := []string{"request", "--signer", userSigner, "--cn", name}
	for _, group := range u.subject.Organizations {
		words = append(words, "--org", group)
	}
	if u.expires != 0 {
		words = append(words, "--expires", u.expires.String())
	}
	file := u.place.Path
	if file == "" {
		file = name + ".kubeconfig"
	}
	words = append(words, "--out", name, "--kubeconfig-out", file)
	return u.connection.line(words...)
}

// advise replaces the advice for a request whose key is gone.
func (u *userCreation) advise(err error) error {
	var known *exit.Error
	if !errors.As(err, &known) || known.Code != exit.TimedOut && known.Code != exit.Interrupted {
		return err
	}
	return &exit.Error{Err: err, Code: known.Code, Next: []string{
		"The key of this request was not kept: deny the request. To create a request that can wait for more approvals or for a signer:",
		"  " + u.byOthers(),
	}}
}

func (u *userCreation) deliver(chain []*x509.Certificate, key crypto.Signer, streams genericiooptions.IOStreams, said io.Writer) error {
	config, err := u.connection.clientConfig(io.Discard)
	if err != nil {
		return err
	}
	server := at(config, u.server)
	data, err := kubeconfig.ForCertificate(chain, key, server)
	if err != nil {
		return err
	}
	if u.place.Path == "" {
		warnOfReaders(streams)
		_, err = streams.Out.Write(data)
	} else {
		err = u.place.Write(data)
	}
	if err != nil {
		return err
	}
	if isLoopback(server.Host) {
		fmt.Fprintf(streams.ErrOut, "Only this machine reaches the server at %s: for a user on another one, give --server.\n", server.Host)
	}
	_, err = fmt.Fprintln(said, print.Printable(u.summary(chain[0])))
	return err
}

// warnOfReaders warns if other users can read the output file: a shell creates it with
// its umask.
func warnOfReaders(streams genericiooptions.IOStreams) {
	file, ok := streams.Out.(*os.File)
	if !ok {
		return
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintln(streams.ErrOut, "Warning: other users of this host can read the key in the file: run chmod 600 on it, or give --out")
	}
}

func (u *userCreation) summary(cert *x509.Certificate) string {
	text := "user " + u.subject.CommonName
	switch groups := u.subject.Organizations; len(groups) {
	case 0:
	case 1:
		text += " in the group " + groups[0]
	default:
		text += " in the groups " + strings.Join(groups, ", ")
	}
	text += ", until " + cert.NotAfter.UTC().Format(time.RFC3339)
	if u.place.Path != "" {
		text = u.place.Path + ": " + text
	}
	return text
}

// Package request obtains a certificate from the certificates API.
package request

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile/readymade"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

// Requests holds the methods for certificate signing requests that a requester needs.
// Clients of client-go implement it.
type Requests interface {
	Create(context.Context, *certificatesv1.CertificateSigningRequest, metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error)
	Get(context.Context, string, metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error)
	List(context.Context, metav1.ListOptions) (*certificatesv1.CertificateSigningRequestList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	UpdateApproval(context.Context, string, *certificatesv1.CertificateSigningRequest, metav1.UpdateOptions) (*certificatesv1.CertificateSigningRequest, error)
}

// DryRun selects how far a run goes.
type DryRun string

// The dry runs, named like kubectl's.
const (
	DryRunNone   DryRun = "none"
	DryRunClient DryRun = "client" // no request is sent
	DryRunServer DryRun = "server" // the server checks the request and does not store it
)

// Config describes the certificate to obtain and the way to obtain it.
type Config struct {
	Options Options
	// Name is the request's name. If it is empty, the server generates one.
	Name string
	// KeyFile holds the private key to use. If it is empty, a key of KeyType is
	// created and saved as tls.key in Out.
	KeyFile string
	KeyType pki.KeyType
	// Out is the folder for tls.key and tls.crt. It may be empty with Deliver, and in
	// a client or server dry run, where a new key is discarded.
	Out string
	// Deliver, if not nil, is called with the issued certificate with its chain, and its
	// key.
	Deliver func(chain []*x509.Certificate, key crypto.Signer) error
	// Approve makes the run approve its own request.
	Approve bool
	// Wait limits the time until the certificate is issued, counted from the first call
	// to the server. With zero, the request is only submitted.
	Wait time.Duration

	DryRun DryRun
	// Output prints the request as "yaml" or "json" on Stdout.
	Output string

	// Connect connects to the server. It is called at most once, before a key
	// is created, and not at all in a client dry run.
	Connect func() (Requests, error)
	// Signers returns the declared Signers; known is false if the caller may not list
	// them, or if the server does not serve them. Nil if they do not matter.
	Signers func(context.Context) (all []v1alpha1.Signer, known bool)
	// Again returns the command line that resumes the request with that name
	// and key file.
	Again func(name, keyFile string) string
	// Explain returns the command line that explains the request with that
	// name.
	Explain func(name string) string
	// Now is the clock for checking issued certificates.
	Now func() time.Time

	// Stdout receives the request as selected by Output, or a line for each step. Stderr
	// receives warnings.
	Stdout, Stderr io.Writer
}

// run is one run of Run.
type run struct {
	Config
	server Requests
	key    *privateKey
}

// Run obtains the certificate. Errors with a next step are *exit.Error.
func Run(ctx context.Context, cfg Config) error {
	r := &run{Config: cfg}
	if err := r.prepare(); err != nil {
		return err
	}
	if r.Wait > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, r.Wait, errLate)
		defer cancel()
		ctx = limited
	}
	if r.DryRun != DryRunClient {
		if err := r.resolveSigner(ctx); err != nil {
			return errors.Join(err, r.key.forget())
		}
	}
	csr, err := r.Options.manifest(r.Name, r.key)
	if err != nil {
		return err
	}
	r.warnOfClients()
	if r.DryRun == DryRunClient {
		return r.previewLocally(csr)
	}
	stored, err := r.submit(ctx, csr)
	if err != nil {
		return errors.Join(err, r.forgetUnused(err))
	}
	if r.DryRun == DryRunServer {
		return r.print(stored)
	}
	return r.obtain(ctx, stored)
}

// errLate is the cause of the end of a context at the end of Wait.
var errLate = errors.New("the time to wait is over")

func isLate(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errLate) }

// unanswered returns the error of a call. It adds a note if the server did not answer
// before the end of Wait.
func (r *run) unanswered(ctx context.Context, err error) error {
	var answer apierrors.APIStatus
	if err == nil || !isLate(ctx) || errors.As(err, &answer) {
		return err
	}
	return &exit.Error{
		Err: fmt.Errorf("the server has not answered within %s (--wait): %w", r.Wait, err), Code: exit.TimedOut,
		Next: []string{"To see whether the server and its store work: certplane kubectl get --raw '/readyz?verbose'"},
	}
}

// warnOfClients warns if a request without usages names a host, but its signer signs for
// users.
func (r *run) warnOfClients() {
	o := r.Options
	if o.Signer == certificatesv1.KubeAPIServerClientSignerName && len(o.Usages) == 0 && len(o.DNSNames)+len(o.IPAddresses) > 0 {
		r.warn("%s signs for clients of the API; for a server certificate: --signer %s", o.Signer, readymade.Server)
	}
}

// prepare does everything that can fail before the request is sent.
func (r *run) prepare() error {
	if r.DryRun != DryRunClient {
		server, err := r.Connect()
		if err != nil {
			return err
		}
		r.server = server
	}
	if r.Out != "" {
		if err := prepareFolder(r.Out); err != nil {
			return err
		}
	}
	key, err := r.takeKey()
	if err != nil {
		return err
	}
	r.key = key
	return nil
}

func prepareFolder(dir string) error {
	// The folder is for a private key.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the output folder: %w", err)
	}
	return atomicfile.CheckDir(dir)
}

func (r *run) previewLocally(csr *certificatesv1.CertificateSigningRequest) error {
	if err := r.print(csr); err != nil {
		return err
	}
	if r.key.path == "" {
		r.warn("the private key of this request was not stored; give --out DIR or --key FILE to store it")
	}
	return nil
}

// obtain takes a stored request to its certificate.
func (r *run) obtain(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	if r.Approve {
		approved, err := r.approve(ctx, csr)
		if err != nil {
			return err
		}
		csr = approved
	}
	if r.Wait == 0 {
		r.say("not waiting for the certificate; to fetch it:\n  %s", r.again(csr.Name))
		return r.printIfRequested(csr)
	}
	issued, err := r.wait(ctx, csr)
	if err != nil {
		return err
	}
	if err := r.deliver(issued); err != nil {
		return exit.WithNext(err, fmt.Sprintf("The request is %s: %s", issued.Name, print.CommandLine(print.Command([]string{"certplane", "kubectl", "get", "csr"}, []string{issued.Name}, "-o", "yaml")...)))
	}
	return r.printIfRequested(issued)
}

func (r *run) again(name string) string { return r.Again(name, r.key.path) }

func (r *run) printIfRequested(csr *certificatesv1.CertificateSigningRequest) error {
	if r.Output == "" {
		return nil
	}
	return r.print(csr)
}

// say prints a step. Errors of printing are ignored.
func (r *run) say(format string, args ...any) {
	if r.Output == "" {
		fmt.Fprintf(r.Stdout, format+"\n", args...)
	}
}

func (r *run) warn(format string, args ...any) {
	fmt.Fprintf(r.Stderr, "Warning: "+format+"\n", args...)
}

package request

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// fieldManager is the manager of the fields that this program writes.
const fieldManager = "certplane-request"

// submit stores the request, or finds it stored by an earlier run.
func (r *run) submit(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	options := metav1.CreateOptions{FieldManager: fieldManager}
	if r.DryRun == DryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	created, err := r.server.Create(ctx, csr, options)
	err = r.unanswered(ctx, err)
	switch {
	case err == nil:
		r.say("certificatesigningrequest %s created for signer %s", created.Name, created.Spec.SignerName)
		return created, nil
	case apierrors.IsAlreadyExists(err) && r.Name != "":
		return r.resume(ctx, csr)
	case mayBeStored(err) && r.DryRun == DryRunNone:
		return nil, exit.WithNext(exit.Advise("submitting the request", err), r.howToFindOut()...)
	default:
		return nil, exit.Advise("submitting the request", err)
	}
}

// howToFindOut returns the advice for a request that the server may or may not have
// stored.
func (r *run) howToFindOut() []string {
	if r.Name == "" {
		return []string{
			"The server may have stored the request. To check: certplane kubectl get csr",
			"Its private key is " + r.key.path + ". To submit it again, add: --key " + r.key.path,
		}
	}
	return []string{"The server may have stored the request. To check and continue:", "  " + r.again(r.Name)}
}

// resume resumes a stored request if it is the wanted one.
func (r *run) resume(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	stored, err := r.server.Get(ctx, csr.Name, metav1.GetOptions{})
	if err != nil {
		return nil, exit.Advise("reading the request of that name", r.unanswered(ctx, err))
	}
	if difference := compare(stored, csr); difference != "" {
		return nil, exit.WithNext(&differentError{name: csr.Name, difference: difference},
			"Choose another name with --name, or delete that request: "+print.CommandLine(print.Command([]string{"certplane", "kubectl", "delete", "csr"}, []string{csr.Name})...))
	}
	r.say("certificatesigningrequest %s was submitted before with this key, continuing with it", stored.Name)
	return stored, nil
}

// differentError reports that another request has the name.
type differentError struct{ name, difference string }

func (e *differentError) Error() string {
	return fmt.Sprintf("a request named %s exists already and has %s", e.name, e.difference)
}

// mayBeStored reports whether the request could have reached the store although
// creating it failed. It returns false if the server refused the request, or if
// there was no connection at all.
func mayBeStored(err error) bool {
	var different *differentError
	var dial *net.OpError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &different), errors.As(err, &untrusted):
		return false
	case errors.As(err, &dial) && dial.Op == "dial":
		return false
	}
	var refusal apierrors.APIStatus
	return !errors.As(err, &refusal) || refusal.Status().Code >= 500
}

// forgetUnused removes a new key if no stored request uses it, so that the
// corrected command can be run with the same flags.
func (r *run) forgetUnused(err error) error {
	if mayBeStored(err) {
		return nil
	}
	return r.key.forget()
}

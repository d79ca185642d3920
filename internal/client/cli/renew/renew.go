// Package renew triggers the renewal of Certificates of cert-manager.io before
// they are due.
package renew

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// Config selects the Certificates to renew.
type Config struct {
	// Namespace is the namespace of the Certificates. Empty means all
	// namespaces, if Names is empty.
	Namespace string
	// Names are the names of the Certificates. If there are none, Selector
	// chooses, and if that is empty, all Certificates are renewed.
	Names    []string
	Selector string
	// Connect returns a client.
	Connect func() (dynamic.Interface, error)
	// Kubectl is the command with which the user calls kubectl.
	Kubectl string
	Now     func() time.Time
	Stdout  io.Writer
}

var resource = cmv1.SchemeGroupVersion.WithResource("certificates")

// Run triggers the issuance of a new certificate for each of the Certificates, regardless
// of the current certificate's state and of earlier failures. It does not wait for the
// new certificates. A Certificate that cannot be renewed does not stop the renewal of the
// others.
func Run(ctx context.Context, cfg Config) error {
	client, err := cfg.Connect()
	if err != nil {
		return err
	}
	r := renewer{Config: cfg, certificates: client.Resource(resource)}
	if len(cfg.Names) == 0 {
		return r.selected(ctx)
	}
	var failed []error
	for _, name := range cfg.Names {
		failed = append(failed, r.renew(ctx, cfg.Namespace, name))
	}
	return errors.Join(failed...)
}

var errNoCertificates = exit.WithNext(errors.New("the server has no certificates.cert-manager.io"), "Install the kinds of cert-manager.io there.")

type renewer struct {
	Config
	certificates dynamic.NamespaceableResourceInterface
}

func (r renewer) selected(ctx context.Context) error {
	list, err := r.certificates.Namespace(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.Selector})
	switch {
	case served.IsMissing(err):
		return errNoCertificates
	case err != nil:
		return exit.Advise("listing Certificates", err)
	case len(list.Items) == 0:
		return r.noneError()
	}
	var failed []error
	for i := range list.Items {
		failed = append(failed, r.renew(ctx, list.Items[i].GetNamespace(), list.Items[i].GetName()))
	}
	return errors.Join(failed...)
}

// noneError returns an error that names the selector and the namespace.
func (r renewer) noneError() error {
	what, where := "found no Certificate", "in any namespace"
	if r.Selector != "" {
		what += fmt.Sprintf(" with the labels %q", r.Selector)
	}
	if r.Namespace != "" {
		where = fmt.Sprintf("in namespace %q", r.Namespace)
	}
	return exit.WithNext(errors.New(what+" "+where), r.seeAll())
}

func (r renewer) seeAll() string {
	return fmt.Sprintf("To list them: %s get certificates -A --show-labels", r.Kubectl)
}

// renew triggers the renewal of a Certificate. It retries if another client has changed
// the Certificate.
func (r renewer) renew(ctx context.Context, namespace, name string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return r.attempt(ctx, namespace, name) })
	switch {
	case served.IsMissing(err):
		return errNoCertificates
	case apierrors.IsNotFound(err):
		return exit.WithNext(fmt.Errorf("found no Certificate %s/%s", namespace, name), r.seeAll())
	case err != nil:
		return exit.Advise(fmt.Sprintf("renewing Certificate %s/%s", namespace, name), err)
	}
	_, err = fmt.Fprintf(r.Stdout, "Certificate %s/%s is being renewed\n", namespace, name)
	return err
}

// checkOwner returns an error for a Certificate whose Secret belongs to another
// Certificate: no certificate would be issued for it. Its condition, also as written by
// cert-manager, reports this. A condition that names a deleted Certificate is ignored. If
// the caller may not list Certificates, this check is skipped.
func (r renewer) checkOwner(ctx context.Context, crt *cmv1.Certificate) error {
	ready := certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady)
	if ready == nil || ready.Status != cmmeta.ConditionFalse || ready.Reason != issuance.ReasonIncorrectCertificate {
		return nil
	}
	list, err := r.certificates.Namespace(crt.Namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range list.Items {
		secret, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "secretName")
		if secret == crt.Spec.SecretName && list.Items[i].GetName() != crt.Name && list.Items[i].GetDeletionTimestamp() == nil {
			return fmt.Errorf("no certificate is issued for it: %s", ready.Message)
		}
	}
	return nil
}

func (r renewer) attempt(ctx context.Context, namespace, name string) error {
	loose, err := r.certificates.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	crt := &cmv1.Certificate{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, crt); err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if !crt.DeletionTimestamp.IsZero() {
		return errors.New("it is being deleted")
	}
	if err := r.checkOwner(ctx, crt); err != nil {
		return err
	}
	issuance.SetRenewing(crt, r.Now())
	renewing, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crt)
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	loose.Object["status"] = renewing["status"]
	_, err = r.certificates.Namespace(namespace).UpdateStatus(ctx, &unstructured.Unstructured{Object: loose.Object}, metav1.UpdateOptions{})
	return err
}

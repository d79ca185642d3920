package apiserver

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant"
)

const (
	// storedPage is how many objects are read at once, and all that are in memory.
	storedPage = 100
	// restAfterPage is the pause before the next page, as a multiple of the time that the
	// last one took: clients need the processor, and these records are not urgent.
	restAfterPage = 4
)

// RecordStored makes the inventory record the certificates without a record in stored
// requests and in the Secrets of Certificates: those issued by a version without an
// inventory, earlier or by a server that runs beside this one. It does not change existing
// records, so it can be called again at any time. It reads slowly, page by page.
func (s *Server) RecordStored(ctx context.Context, api client.Reader) error {
	if s.recording.records == nil {
		return nil
	}
	later := &recordingLater{recording: s.recording, api: api}
	var lists []client.ObjectList
	for _, k := range requestkind.All {
		lists = append(lists, k.NewList())
	}
	for _, list := range append(lists, &corev1.SecretList{}) {
		if err := later.recordAll(ctx, list); err != nil {
			return err
		}
	}
	if later.recorded > 0 || later.refused > 0 {
		klog.FromContext(ctx).Info("Recorded certificates that were stored without a record", "recorded", later.recorded, "refusedForSpace", later.refused)
	}
	return nil
}

// recordingLater records certificates in stored objects.
type recordingLater struct {
	*recording
	api client.Reader
	// recorded and refused are the numbers of certificates that got a record, and of those
	// that did not because their tenants have no room.
	recorded, refused int
}

// recordAll records the certificates in all objects of a kind, page by page.
func (r *recordingLater) recordAll(ctx context.Context, list client.ObjectList) error {
	options := &client.ListOptions{Limit: storedPage}
	for {
		began := r.clock.Now()
		err := r.api.List(ctx, list, options)
		if served.IsMissing(err) {
			return nil
		}
		if next := continueExpired(err); next != "" {
			options.Continue = next
			continue
		}
		if err == nil {
			err = r.recordPage(ctx, list)
		}
		if err != nil {
			return fmt.Errorf("recording the certificates in stored objects: %w", err)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
		if !worker.Sleep(ctx, restAfterPage*min(r.clock.Since(began), time.Second)) {
			return ctx.Err()
		}
	}
}

// continueExpired returns the token to continue a list whose revision the store has
// compacted because the list took too long; empty for other errors.
func continueExpired(err error) string {
	var status apierrors.APIStatus
	if apierrors.IsResourceExpired(err) && errors.As(err, &status) {
		return status.Status().ListMeta.Continue
	}
	return ""
}

func (r *recordingLater) recordPage(ctx context.Context, list client.ObjectList) error {
	found := map[*x509.Certificate]client.Object{}
	var certificates []*x509.Certificate
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object := item.(client.Object)
		if chain, err := pki.ParseCertificates(certificateIn(object)); err == nil && len(chain) > 0 {
			found[chain[0]] = object
			certificates = append(certificates, chain[0])
		}
		return nil
	})
	if err != nil {
		return err
	}
	missing, err := r.records.Unrecorded(ctx, certificates)
	if err != nil {
		return err
	}
	for _, cert := range missing {
		if err := r.recordOne(ctx, cert, found[cert]); err != nil {
			return err
		}
	}
	return nil
}

// certificateIn returns the certificate in a request, or in the Secret of a Certificate.
func certificateIn(object client.Object) []byte {
	if secret, ok := object.(*corev1.Secret); ok {
		if secret.Annotations[cmv1.CertificateNameKey] == "" {
			return nil
		}
		return secret.Data[corev1.TLSCertKey]
	}
	answered, _ := inventory.Look(object)
	return answered.Certificate
}

// recordOne records a certificate that was found in an object.
func (r *recordingLater) recordOne(ctx context.Context, cert *x509.Certificate, object client.Object) error {
	record, err := r.recordIn(ctx, cert, object)
	if err != nil || record == nil {
		return err
	}
	now := r.clock.Now().UTC().Truncate(time.Second)
	record.CreationTimestamp = inventory.IssuedAt(cert, object, now)
	if record.Annotations == nil {
		record.Annotations = map[string]string{}
	}
	record.Annotations[inventoryv1alpha1.FoundAnnotation] = now.Format(time.RFC3339)
	owner := tenant.OfObject(object)
	op, err := r.write(record, owner)
	if err != nil {
		return err
	}
	writes := &writesOf{ops: []clientv3.Op{op}}
	err = r.commit(ctx, writes, owner, inventory.IsNew(op))
	if errors.As(err, &noSpace{}) {
		r.refused++
		return nil
	}
	if err != nil {
		return err
	}
	r.recorded++
	r.wrote(writes)
	return nil
}

// recordIn returns the record of a certificate that was found in an object, nil if it has
// none.
func (r *recordingLater) recordIn(ctx context.Context, cert *x509.Certificate, object client.Object) (*inventoryv1alpha1.IssuedCertificate, error) {
	now := metav1.NewTime(r.clock.Now())
	if secret, ok := object.(*corev1.Secret); ok {
		return r.recordOfSecret(ctx, cert, secret, now)
	}
	answered, _ := inventory.Look(object)
	approval, err := r.records.Approval(ctx, answered.UID())
	if err != nil {
		return nil, err
	}
	return r.recordOf(answered, approval, now)
}

// recordOfSecret returns the record of a certificate in the Secret of a Certificate whose
// request no longer exists. It returns nil if the certificate does not belong to the
// Certificate: users can write Secrets, so the status of the Certificate must match it.
func (r *recordingLater) recordOfSecret(ctx context.Context, cert *x509.Certificate, secret *corev1.Secret, now metav1.Time) (*inventoryv1alpha1.IssuedCertificate, error) {
	crt := &cmv1.Certificate{}
	err := r.api.Get(ctx, client.ObjectKey{Namespace: secret.Namespace, Name: secret.Annotations[cmv1.CertificateNameKey]}, crt)
	if apierrors.IsNotFound(err) || served.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if crt.Spec.SecretName != secret.Name || crt.Status.NotAfter == nil || !crt.Status.NotAfter.Time.Equal(cert.NotAfter) {
		return nil, nil
	}
	request := requestOf(crt, secret)
	answered, _ := inventory.Look(request)
	record, err := answered.Record(nil, nil, now)
	if err != nil {
		return nil, err
	}
	record.Request = inventoryv1alpha1.RequestFacts{
		APIGroup: cmv1.SchemeGroupVersion.Group, Kind: cmv1.CertificateKind, Namespace: crt.Namespace, Name: crt.Name, UID: string(crt.UID),
	}
	record.Location.Claimed = false // it was found there
	inventory.Complete(record)
	return record, nil
}

// requestOf rebuilds the request for the certificate in a Secret. The issuer is taken from
// the annotations of the Secret.
func requestOf(crt *cmv1.Certificate, secret *corev1.Secret) *cmv1.CertificateRequest {
	return &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: crt.Namespace, Labels: crt.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(crt, cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind))},
		},
		Spec: cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{
			Name: secret.Annotations[cmv1.IssuerNameAnnotationKey], Kind: secret.Annotations[cmv1.IssuerKindAnnotationKey], Group: secret.Annotations[cmv1.IssuerGroupAnnotationKey],
		}},
		Status: cmv1.CertificateRequestStatus{Certificate: bytes.Clone(secret.Data[corev1.TLSCertKey])},
	}
}

package main

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
)

// obtain makes a key, submits a request, approves it and waits on a watch for
// the certificate.
func obtain(ctx context.Context, client kubernetes.Interface, name string) error {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	request, err := pki.NewRequest(pki.Subject{CommonName: name}, key)
	if err != nil {
		return err
	}
	csrs := client.CertificatesV1().CertificateSigningRequests()
	csr, err := csrs.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    request,
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating: %w", err)
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Benchmark",
	}}
	csr, err = csrs.UpdateApproval(ctx, name, csr, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("approving: %w", err)
	}
	return awaitCertificate(ctx, csrs, csr)
}

func awaitCertificate(ctx context.Context, csrs certificatesclient.CertificateSigningRequestInterface, csr *certificatesv1.CertificateSigningRequest) error {
	watch, err := csrs.Watch(ctx, metav1.ListOptions{
		FieldSelector:   "metadata.name=" + csr.Name,
		ResourceVersion: csr.ResourceVersion,
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if ok && len(csr.Status.Certificate) > 0 {
			return nil
		}
	}
	return errors.Join(errors.New("the watch ended without a certificate"), ctx.Err())
}

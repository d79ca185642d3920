package acmeserver

import (
	"context"
	"encoding/pem"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// publishRevocation creates the Revocation of the certificate of an order. It comes before the
// change of the order: if that fails, the client tries again, and finds the Revocation.
func (s *store) publishRevocation(ctx context.Context, o *v1alpha1.AcmeOrder, revoked *v1alpha1.AcmeRevoked, der []byte) error {
	object := &v1alpha1.Revocation{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("acme-%s-%d", o.UID, revoked.Reason)},
		Spec: v1alpha1.RevocationSpec{
			Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}},
			Reason:       acmeorder.RevocationReason(revoked.Reason),
			Message:      fmt.Sprintf("AcmeOrder %s/%s, by %s", o.Namespace, o.Name, revoked.By),
		},
	}
	if err := s.live.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the Revocation of the certificate: %w", err)
	}
	return nil
}

package decide

import (
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/rights"
)

// undecided is a request of one kind.
type undecided interface {
	kind() rights.Kind
	object() client.Object
	// subresource is where decisions are written.
	subresource() string
	// set writes a decision into the object. It returns an errDecided if there is one.
	set(Decision, time.Time) error
	// waits returns what the server wants besides this decision, as it has answered;
	// empty if the decision stands.
	waits(Decision) string
}

// errDecided says that there is a decision already.
var errDecided = errors.New("a decision cannot be changed")

type signingRequest struct {
	certificatesv1.CertificateSigningRequest
}

func (r *signingRequest) kind() rights.Kind     { return rights.SigningRequests }
func (r *signingRequest) object() client.Object { return &r.CertificateSigningRequest }
func (r *signingRequest) subresource() string   { return "approval" }

func (r *signingRequest) set(d Decision, now time.Time) error {
	for _, decided := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		if before := certificates.Condition(&r.CertificateSigningRequest, decided); before != nil {
			return fmt.Errorf("CertificateSigningRequest %q is %s already, with reason %q: %w", r.Name, decided, before.Reason, errDecided)
		}
	}
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.RequestConditionType(d.Kind), Status: corev1.ConditionTrue,
		Reason: d.Reason, Message: d.Message, LastUpdateTime: metav1.NewTime(now),
	})
	return nil
}

func (r *signingRequest) waits(d Decision) string {
	awaiting := certificates.Condition(&r.CertificateSigningRequest, quorum.AwaitingApproval)
	if awaiting == nil || certificates.Condition(&r.CertificateSigningRequest, certificatesv1.RequestConditionType(d.Kind)) != nil {
		return ""
	}
	return awaiting.Message
}

type issuerRequest struct{ cmv1.CertificateRequest }

func (r *issuerRequest) kind() rights.Kind     { return rights.IssuerRequests }
func (r *issuerRequest) object() client.Object { return &r.CertificateRequest }
func (r *issuerRequest) subresource() string   { return "status" }

func (r *issuerRequest) set(d Decision, now time.Time) error {
	if err := issuance.SetDecision(&r.CertificateRequest, d.Kind, issuance.Finding{Reason: d.Reason, Message: d.Message}, now); err != nil {
		return &decidedError{err}
	}
	return nil
}

func (r *issuerRequest) waits(d Decision) string {
	awaiting := certmanager.RequestCondition(&r.CertificateRequest, quorum.AwaitingApproval)
	if awaiting == nil || certmanager.RequestCondition(&r.CertificateRequest, d.Kind) != nil {
		return ""
	}
	return awaiting.Message
}

// decidedError is an errDecided with a text of its own.
type decidedError struct{ error }

func (e *decidedError) Is(target error) bool { return target == errDecided }

package issuer

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// certificateRequests are those of cert-manager.io.
var certificateRequests = requestAPI{
	GroupVersionKind: cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind),
	plural:           "certificaterequests",
	namespaced:       true,
	new:              func() client.Object { return &cmv1.CertificateRequest{} },
	list:             func() client.ObjectList { return &cmv1.CertificateRequestList{} },
	as: func(o client.Object) (asked, bool) {
		cr, ok := o.(*cmv1.CertificateRequest)
		return certificateRequest{cr}, ok
	},
}

type certificateRequest struct{ *cmv1.CertificateRequest }

func (cr certificateRequest) object() client.Object { return cr.CertificateRequest }

func (cr certificateRequest) is(kind cmv1.CertificateRequestConditionType) bool {
	return certmanager.RequestIs(cr.CertificateRequest, kind)
}

func (cr certificateRequest) issuer(ks kinds) (who, bool) {
	return ks.referred(cr.Spec.IssuerRef, cr.Namespace)
}

func (cr certificateRequest) step() step {
	switch {
	case cr.is(cmv1.CertificateRequestConditionDenied):
		if cr.shows(denied) {
			return stepNone
		}
		return stepDeny
	case cr.is(cmv1.CertificateRequestConditionInvalidRequest), cr.answered():
		return stepNone
	case !cr.is(cmv1.CertificateRequestConditionApproved):
		return stepAwait
	default:
		return stepSign
	}
}

// answered tells whether a request has its answer, whoever gave it.
func (cr certificateRequest) answered() bool {
	if cr.is(cmv1.CertificateRequestConditionReady) || len(cr.Status.Certificate) > 0 {
		return true
	}
	switch certmanager.ReadyReason(cr.CertificateRequest) {
	case cmv1.CertificateRequestReasonFailed, cmv1.CertificateRequestReasonDenied, cmv1.CertificateRequestReasonIssued:
		return true
	default:
		return false
	}
}

// mayRefer: a request can name issuers of its own namespace only.
func (cr certificateRequest) mayRefer(context.Context, *controller, who) (bool, error) {
	return true, nil
}

func (cr certificateRequest) awaits(w who) (reason, note string) {
	return reasonAwaits, fmt.Sprintf(
		"Not signing CertificateRequest until it is Approved: an approver needs the verb approve on signers.%s named %s/*",
		certmanager.Group, w.kind.domain())
}

func (cr certificateRequest) read(c *controller) (*Request, *outcome) {
	usages, err := certmanager.Usages(cr.Spec.Usages, cr.Spec.IsCA)
	if err != nil {
		return refuse(reasonInvalidRequest, "spec.usages: %v", err)
	}
	request := &Request{
		PEM: cr.Spec.Request, IsCA: cr.Spec.IsCA, KeyUsage: usages.Key, ExtKeyUsage: usages.Extended,
		Requester: authenticationv1.UserInfo{Username: cr.Spec.Username, UID: cr.Spec.UID, Groups: cr.Spec.Groups},
	}
	for key, values := range cr.Spec.Extra {
		request.setExtra(key, values)
	}
	var wish *time.Duration
	if cr.Spec.Duration != nil {
		wish = &cr.Spec.Duration.Duration
	}
	if err := errors.Join(request.setDuration(wish, c.DefaultDuration, c.MaxDuration), request.parse()); err != nil {
		return refuse(reasonInvalidRequest, "%v", err)
	}
	return request, nil
}

func refuse(reason, format string, args ...any) (*Request, *outcome) {
	o := fails(reason, format, args...)
	return nil, &o
}

func readyStatus(o outcome) cmmeta.ConditionStatus {
	if o.chain != nil {
		return cmmeta.ConditionTrue
	}
	return cmmeta.ConditionFalse
}

func (cr certificateRequest) shows(o outcome) bool {
	ready := certmanager.RequestCondition(cr.CertificateRequest, cmv1.CertificateRequestConditionReady)
	if ready == nil || ready.Status != readyStatus(o) || ready.Reason != o.reason || ready.Message != presentable(o.message) {
		return false
	}
	if o.chain != nil {
		return string(cr.Status.Certificate) == string(o.certificate())
	}
	return !o.failed() || cr.Status.FailureTime != nil
}

func (cr certificateRequest) write(ctx context.Context, c *controller, o outcome) error {
	fields, err := cr.fields(o, c.clock.Now())
	if err != nil {
		return err
	}
	_, err = c.apply(ctx, cr.CertificateRequest, certificateRequests.GroupVersionKind, fields)
	return err
}

// fields are all that we have to say in the status: what is not said again, is
// taken back. Nothing in them is anybody else's.
func (cr certificateRequest) fields(o outcome, now time.Time) (map[string]any, error) {
	next, at := cr.DeepCopy(), metav1.NewTime(now)
	certmanager.SetRequestCondition(next, cmv1.CertificateRequestConditionReady, readyStatus(o), o.reason, presentable(o.message), at)
	if o.invalid {
		certmanager.SetRequestCondition(next, cmv1.CertificateRequestConditionInvalidRequest, cmmeta.ConditionTrue,
			reasonInvalidRequest, presentable(o.message), at)
	}
	conditions, err := entries(next, cmv1.CertificateRequestConditionReady, cmv1.CertificateRequestConditionInvalidRequest)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{"conditions": conditions}
	if o.failed() && next.Status.FailureTime == nil {
		next.Status.FailureTime = &at
	}
	if next.Status.FailureTime != nil {
		fields["failureTime"] = next.Status.FailureTime.UTC().Format(time.RFC3339)
	}
	if o.chain != nil {
		fields["certificate"] = base64.StdEncoding.EncodeToString(o.certificate())
		if o.chain.CA != nil {
			fields["ca"] = base64.StdEncoding.EncodeToString(pki.EncodeCertificates(o.chain.CA))
		}
	}
	return fields, nil
}

// entries are the conditions of these types that a request has.
func entries(cr *cmv1.CertificateRequest, types ...cmv1.CertificateRequestConditionType) ([]any, error) {
	var entries []any
	for _, kind := range types {
		condition := certmanager.RequestCondition(cr, kind)
		if condition == nil {
			continue
		}
		entry, err := runtime.DefaultUnstructuredConverter.ToUnstructured(condition)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

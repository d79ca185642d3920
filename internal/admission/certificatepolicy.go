package admission

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	"github.com/certplane/certplane/internal/admission/policycheck"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// certificatePolicy applies the certificate policies to requests, and decides
// which policies may be stored. Without policies it does nothing.
type certificatePolicy struct {
	*admission.Handler
	authz  authorizer.UnconditionalAuthorizer
	checks *policycheck.Checks
}

var (
	_ admission.MutationInterface   = &certificatePolicy{}
	_ admission.ValidationInterface = &certificatePolicy{}
	_ wantsPolicies                 = &certificatePolicy{}
)

func newCertificatePolicy(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return &certificatePolicy{Handler: admission.NewHandler(admission.Create, admission.Update), authz: authz}
}

// wantsPolicies is a plugin that decides by certificate policies.
type wantsPolicies interface{ setPolicies(*policies.Policies) }

// Policies gives the plugins the certificate policies.
type Policies struct{ *policies.Policies }

// Initialize implements admission.PluginInitializer.
func (p Policies) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(wantsPolicies); ok && p.Policies != nil {
		wants.setPolicies(p.Policies)
	}
}

func (p *certificatePolicy) setPolicies(all *policies.Policies) {
	p.checks = policycheck.New(all, p.authorize)
}

// authorize implements policies.AccessFunc.
func (p *certificatePolicy) authorize(ctx context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
	decision, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: who.Extra}, Verb: what.Verb, Namespace: what.Namespace, APIGroup: what.Group, APIVersion: "*",
		Resource: what.Resource, Subresource: what.Subresource, Name: what.Name, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	return false, err
}

// Admit turns approvals that are not enough into votes, and puts back the
// conditions that only the server writes.
func (p *certificatePolicy) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	// A second call would see what the first one made.
	if p.checks == nil || a.GetOperation() != admission.Update || a.GetReinvocationContext().IsReinvoke() {
		return nil
	}
	switch {
	case isCSR(a, "approval"), isCSR(a, "status"):
		csr, old, err := bothCSRs(a)
		if err != nil {
			return err
		}
		conditions, result := p.checks.Mutate(ctx, csrWrite(ctx, a, csr, old))
		if err := tell(ctx, a, result); err != nil {
			return err
		}
		setCSRConditions(csr, old, conditions)
	case isRequest(a, "status"):
		loose, cr, old, err := bothRequests(a)
		if err != nil {
			return err
		}
		sent := policies.ConditionsOfRequest(cr)
		conditions, result := p.checks.Mutate(ctx, requestWrite(ctx, a, cr, old))
		if err := tell(ctx, a, result); err != nil {
			return err
		}
		stored, _ := a.GetOldObject().(*unstructured.Unstructured)
		return setRequestConditions(loose, stored, sent, conditions, p.checks.Now())
	}
	return nil
}

// Validate refuses what policies forbid, and policies that must not be stored.
func (p *certificatePolicy) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if p.checks == nil {
		return nil
	}
	result, err := p.validate(ctx, a)
	if err != nil {
		return err
	}
	return tell(ctx, a, result)
}

func (p *certificatePolicy) validate(ctx context.Context, a admission.Attributes) (policycheck.Result, error) {
	resource, creates := a.GetResource().GroupResource(), a.GetOperation() == admission.Create
	switch {
	case resource == policies.PoliciesResource.GroupResource() && a.GetSubresource() == "":
		return p.checks.Policy(ctx, policyWrite(a)), nil
	case resource == policies.ExceptionsResource.GroupResource() && a.GetSubresource() == "":
		return p.checks.Exception(ctx, policyWrite(a)), nil
	case creates && isCSR(a, ""):
		csr, err := asCSR(a, a.GetObject())
		if err != nil {
			return policycheck.Result{}, err
		}
		return p.checks.Create(ctx, target(a), request.FromCSR(csr)), nil
	case creates && isRequest(a, ""):
		cr, err := asRequest(a.GetObject())
		if err != nil {
			return policycheck.Result{}, nil // the plugin CertManager says what is wrong with it
		}
		return p.checks.Create(ctx, target(a), request.FromCertificateRequest(cr)), nil
	case !creates && (isCSR(a, "approval") || isCSR(a, "status")):
		csr, old, err := bothCSRs(a)
		if err != nil {
			return policycheck.Result{}, err
		}
		return p.checks.Validate(ctx, csrWrite(ctx, a, csr, old)), nil
	case !creates && isRequest(a, "status"):
		_, cr, old, err := bothRequests(a)
		if err != nil {
			return policycheck.Result{}, err
		}
		return p.checks.Validate(ctx, requestWrite(ctx, a, cr, old)), nil
	}
	return policycheck.Result{}, nil
}

// tell gives warnings to the user and annotations to the audit log, and returns
// the refusal.
func tell(ctx context.Context, a admission.Attributes, result policycheck.Result) error {
	for _, text := range result.Warnings {
		warning.AddWarning(ctx, "", text)
	}
	for key, value := range result.Annotations {
		_ = a.AddAnnotation(key, value) // a second value for a key is not recorded
	}
	if result.Refusal != nil {
		return result.Refusal
	}
	return nil
}

func target(a admission.Attributes) policycheck.Target {
	return policycheck.Target{Resource: a.GetResource().GroupResource(), Name: a.GetName()}
}

func policyWrite(a admission.Attributes) policycheck.Write {
	w := policycheck.Write{Target: target(a), User: requesterOf(a)}
	w.Object, _ = a.GetObject().(*unstructured.Unstructured)
	w.Old, _ = a.GetOldObject().(*unstructured.Unstructured)
	return w
}

func requesterOf(a admission.Attributes) request.Requester {
	who := a.GetUserInfo()
	if who == nil {
		return request.Requester{}
	}
	return request.Requester{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra()}
}

// voter returns the user who writes, and who acts in that user's name.
func voter(ctx context.Context, a admission.Attributes) quorum.Voter {
	v := quorum.Voter{Person: requesterOf(a)}
	if ctx.Value(impersonated{}) != nil {
		v.Impersonator = "another user"
	}
	return v
}

type impersonated struct{}

// MarkImpersonation marks requests in which a user acts in another one's name. It
// must see the headers of the request before the filter that obeys them.
func MarkImpersonation(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "Impersonate-") {
				r = r.WithContext(context.WithValue(r.Context(), impersonated{}, true))
				break
			}
		}
		handler.ServeHTTP(w, r)
	})
}

func bothCSRs(a admission.Attributes) (csr, old *certificatesv1.CertificateSigningRequest, err error) {
	if csr, err = asCSR(a, a.GetObject()); err != nil {
		return nil, nil, err
	}
	old, err = asCSR(a, a.GetOldObject())
	return csr, old, err
}

// csrWrite: the subresources store metadata, but keep the spec.
func csrWrite(ctx context.Context, a admission.Attributes, csr, old *certificatesv1.CertificateSigningRequest) policycheck.Conditions {
	stored := &certificatesv1.CertificateSigningRequest{ObjectMeta: csr.ObjectMeta, Spec: old.Spec}
	stored.UID, stored.Name, stored.CreationTimestamp = old.UID, old.Name, old.CreationTimestamp
	return policycheck.Conditions{
		Target: target(a), Request: request.FromCSR(stored),
		Old: policies.ConditionsOfCSR(old), New: policies.ConditionsOfCSR(csr), User: voter(ctx, a),
	}
}

// setCSRConditions sets conditions. Those that are the same keep their times.
func setCSRConditions(csr, old *certificatesv1.CertificateSigningRequest, conditions []quorum.Condition) {
	known := append(append([]certificatesv1.CertificateSigningRequestCondition{}, old.Status.Conditions...), csr.Status.Conditions...)
	result := []certificatesv1.CertificateSigningRequestCondition{}
	for _, c := range conditions {
		set := certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.RequestConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		}
		for _, one := range known {
			if one.Type == set.Type && one.Status == set.Status && one.Reason == set.Reason && one.Message == set.Message {
				set = one
			}
		}
		result = append(result, set)
	}
	csr.Status.Conditions = result
}

func isRequest(a admission.Attributes, subresource string) bool {
	resource := a.GetResource().GroupResource()
	return resource.Group == cmv1.SchemeGroupVersion.Group && resource.Resource == "certificaterequests" && a.GetSubresource() == subresource
}

func asRequest(object runtime.Object) (*cmv1.CertificateRequest, error) {
	loose, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("expected a CertificateRequest, got %T", object)
	}
	cr := &cmv1.CertificateRequest{}
	return cr, runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, cr)
}

func bothRequests(a admission.Attributes) (loose *unstructured.Unstructured, cr, old *cmv1.CertificateRequest, err error) {
	if cr, err = asRequest(a.GetObject()); err != nil {
		return nil, nil, nil, err
	}
	old, err = asRequest(a.GetOldObject())
	return a.GetObject().(*unstructured.Unstructured), cr, old, err
}

// requestWrite: the subresource stores nothing but the status.
func requestWrite(ctx context.Context, a admission.Attributes, cr, old *cmv1.CertificateRequest) policycheck.Conditions {
	return policycheck.Conditions{
		Target: target(a), Request: request.FromCertificateRequest(old),
		Old: policies.ConditionsOfRequest(old), New: policies.ConditionsOfRequest(cr), User: voter(ctx, a),
	}
}

// setRequestConditions sets conditions, if they differ from those that were sent.
// Those that are the same keep their times and unknown fields.
func setRequestConditions(loose, old *unstructured.Unstructured, sent, conditions []quorum.Condition, now time.Time) error {
	if slices.Equal(sent, conditions) {
		return nil
	}
	known := append(rawConditions(loose), rawConditions(old)...)
	list := []any{}
	for _, c := range conditions {
		set := map[string]any{
			"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message, "lastTransitionTime": now.UTC().Format(time.RFC3339),
		}
		for _, one := range known {
			if one["type"] == c.Type && one["status"] == c.Status && textOf(one["reason"]) == c.Reason && textOf(one["message"]) == c.Message {
				set = one
			}
		}
		list = append(list, set)
	}
	return unstructured.SetNestedSlice(loose.Object, list, "status", "conditions")
}

func rawConditions(loose *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedSlice(loose.Object, "status", "conditions") // a copy
	var conditions []map[string]any
	for _, one := range list {
		if condition, ok := one.(map[string]any); ok {
			conditions = append(conditions, condition)
		}
	}
	return conditions
}

func textOf(value any) string {
	text, _ := value.(string)
	return text
}

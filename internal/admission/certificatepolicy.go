package admission

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionv1 "k8s.io/api/admission/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/admission/certmanager"
	"github.com/certplane/certplane/internal/admission/certpolicy"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// WantsPolicies is for plugins that decide by certificate policies, which may be nil.
// authenticated returns the authenticated user, also if the request impersonates
// another one; nil if it is not known. call returns the state of an API call between
// Admit and Validate; nil if there is none.
type WantsPolicies interface {
	SetPolicies(p *policies.Policies, authenticated func(context.Context) user.Info, call func(context.Context) *certpolicy.Call)
}

// certificatePolicy checks writes by certificate policies.
type certificatePolicy struct {
	*admission.Handler
	access        access
	policies      *policies.Policies
	checks        *certpolicy.Checks
	issuers       *certmanager.Checks
	authenticated func(context.Context) user.Info
	call          func(context.Context) *certpolicy.Call
}

var (
	_ admission.MutationInterface            = &certificatePolicy{}
	_ admission.ValidationInterface          = &certificatePolicy{}
	_ admission.InitializationValidator      = &certificatePolicy{}
	_ initializer.WantsExternalKubeClientSet = &certificatePolicy{}
	_ WantsPolicies                          = &certificatePolicy{}
)

func newCertificatePolicy(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return &certificatePolicy{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete), access: access{authz}}
}

// SetExternalKubeClientSet sets the client that finds the kinds of issuers.
func (p *certificatePolicy) SetExternalKubeClientSet(client kubernetes.Interface) {
	p.issuers = certmanager.New(discovery.ToDiscoveryInterfaceWithContext(client.Discovery()), p.access.authorize)
}

// SetPolicies implements WantsPolicies.
func (p *certificatePolicy) SetPolicies(all *policies.Policies, authenticated func(context.Context) user.Info, call func(context.Context) *certpolicy.Call) {
	p.policies, p.authenticated, p.call = all, authenticated, call
	if all != nil {
		p.checks = certpolicy.New(all, p.access.authorize)
	}
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *certificatePolicy) ValidateInitialization() error {
	if p.issuers == nil || p.checks != nil && (p.authenticated == nil || p.call == nil) {
		return errors.New("CertificatePolicy needs a client, the authenticated user and the state of a call")
	}
	return nil
}

// Admit turns approvals that need more people into votes, and changes of policies that
// do into proposals. It expects the object as the client sent it: in a second call it
// would drop the vote.
func (p *certificatePolicy) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if p.checks == nil || a.GetReinvocationContext().IsReinvoke() {
		return nil
	}
	if certpolicy.IsPolicy(a.GetResource().GroupResource()) {
		return p.admitObject(ctx, a)
	}
	if a.GetOperation() != admission.Update {
		return nil
	}
	switch w, err := p.approvalOf(ctx, a); {
	case err != nil || w == nil:
		return err
	default:
		conditions, outcome := p.checks.Mutate(ctx, w.Approval)
		if err := tell(ctx, a, outcome); err != nil || conditions == nil {
			return err
		}
		return w.store(conditions)
	}
}

// Validate refuses writes that policies forbid.
func (p *certificatePolicy) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if p.checks == nil {
		return nil
	}
	if certpolicy.IsPolicy(a.GetResource().GroupResource()) {
		return tell(ctx, a, p.checks.ValidateObject(ctx, p.objectWrite(ctx, a)))
	}
	switch {
	case a.GetOperation() == admission.Delete:
		return nil
	case a.GetResource().GroupResource() == certpolicy.CertificatesResource && a.GetSubresource() == "":
		sent, stored := readObjects(a)
		return tell(ctx, a, p.checks.Certificate(ctx, sent, stored, a.IsDryRun()))
	case a.GetResource().GroupResource() == podRequests && a.GetSubresource() == "status":
		return p.validateOfPod(ctx, a)
	case a.GetOperation() == admission.Create:
		return p.validateNew(ctx, a)
	}
	if err := p.validateAnnotations(ctx, a); err != nil {
		return err
	}
	w, err := p.approvalOf(ctx, a)
	if err != nil || w == nil {
		return err
	}
	return tell(ctx, a, p.checks.Validate(ctx, w.Approval))
}

// answer is Admit and Validate for an update of the status of a request that is being
// created: nothing changes the object in between. mayApprove: it is known that the user may
// approve for the signer of a CertificateSigningRequest.
func (p *certificatePolicy) answer(ctx context.Context, a admission.Attributes, mayApprove bool) error {
	if p.checks == nil {
		return nil
	}
	if a.GetResource().GroupResource() == podRequests {
		return p.validateOfPod(ctx, a)
	}
	w, err := p.approvalOf(ctx, a)
	if err != nil || w == nil {
		return err
	}
	if mayApprove && isCSR(a, "approval") {
		w.MayApprove = func(context.Context) error { return nil }
	}
	conditions, outcome := p.checks.Mutate(ctx, w.Approval)
	if err := tell(ctx, a, outcome); err != nil {
		return err
	}
	if conditions != nil && !slices.Equal(conditions, w.New) {
		if err := w.store(conditions); err != nil {
			return err
		}
		w.New = conditions
	}
	return tell(ctx, a, p.checks.Settle(ctx, w.Approval))
}

// objectWrite returns a write of a policy or an exception.
func (p *certificatePolicy) objectWrite(ctx context.Context, a admission.Attributes) certpolicy.ObjectWrite {
	object, _ := a.GetObject().(*unstructured.Unstructured)
	old, _ := a.GetOldObject().(*unstructured.Unstructured)
	return certpolicy.ObjectWrite{
		Operation: admissionv1.Operation(a.GetOperation()), Resource: a.GetResource().GroupResource(), Subresource: a.GetSubresource(),
		User: userOf(a), Impersonator: p.impersonator(ctx, a.GetUserInfo()), Object: object, Old: old,
	}
}

func (p *certificatePolicy) admitObject(ctx context.Context, a admission.Attributes) error {
	w := p.objectWrite(ctx, a)
	stored, outcome := p.checks.MutateObject(ctx, w)
	if err := tell(ctx, a, outcome); err != nil || stored == nil {
		return err
	}
	w.Object.Object = stored.Object
	return nil
}

// validateAnnotations checks the annotations for overrides in a write of a request.
func (p *certificatePolicy) validateAnnotations(ctx context.Context, a admission.Attributes) error {
	object, stored := readAnyObjects(a)
	sent, err := meta.Accessor(object)
	if err != nil {
		return nil // it is no request
	}
	old, err := meta.Accessor(stored)
	if err != nil || !certpolicy.SetsOverride(sent.GetAnnotations(), old.GetAnnotations()) {
		return nil
	}
	r, err := requestOf(a, stored)
	if err != nil || r == nil {
		return err
	}
	r.ObjectAnnotations = sent.GetAnnotations()
	return p.annotate(ctx, a, *r, old.GetAnnotations())
}

// annotate checks the annotations for overrides of a request that is written.
func (p *certificatePolicy) annotate(ctx context.Context, a admission.Attributes, r request.Request, stored map[string]string) error {
	return tell(ctx, a, p.checks.Annotate(ctx, certpolicy.Annotating{
		Resource: a.GetResource().GroupResource(), Request: r, Stored: stored, User: p.voter(ctx, a),
	}))
}

// requestOf returns an object as a request; nil for other objects, or if only the
// status is written.
func requestOf(a admission.Attributes, object runtime.Object) (*request.Request, error) {
	switch object := object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		return new(request.FromCSR(object)), nil
	case *unstructured.Unstructured:
		if !isCertificateRequest(a, "") { // a write of the status has no metadata
			return nil, nil
		}
		cr, err := asCertificateRequest(a, object)
		if err != nil {
			return nil, err
		}
		return new(request.FromCertificateRequest(cr)), nil
	default:
		return nil, nil
	}
}

func (p *certificatePolicy) validateNew(ctx context.Context, a admission.Attributes) error {
	object, _ := readAnyObjects(a)
	if csr, ok := object.(*certificatesv1.CertificateSigningRequest); ok && !p.checks.ConcernNew(csr) {
		return nil // without reading it: most servers have few policies, and many requests
	}
	r, err := requestOf(a, object)
	if err != nil || r == nil {
		return err
	}
	r.Requester = certpolicy.Person(userOf(a))
	if err := p.annotate(ctx, a, *r, nil); err != nil {
		return err
	}
	return tell(ctx, a, p.checks.Create(ctx, a.GetResource().GroupResource(), *r, a.IsDryRun()))
}

func (p *certificatePolicy) validateOfPod(ctx context.Context, a admission.Attributes) error {
	sent, ok := a.GetObject().(*certificatesv1beta1.PodCertificateRequest)
	stored, wasOK := a.GetOldObject().(*certificatesv1beta1.PodCertificateRequest)
	if !ok || !wasOK { // only a bug in the server can cause that
		return admission.NewForbidden(a, fmt.Errorf("expected type PodCertificateRequest, got: %T", a.GetObject()))
	}
	write := certpolicy.Of(sent, stored, "status")
	write.DryRun = a.IsDryRun()
	return tell(ctx, a, p.checks.Issued(ctx, write))
}

// conditionsWrite is a write of conditions. store replaces them.
type conditionsWrite struct {
	certpolicy.Approval
	store func([]quorum.Condition) error
}

// approvalOf returns the write of a request's conditions; nil if a is another write, or policies
// have nothing to do with it.
func (p *certificatePolicy) approvalOf(ctx context.Context, a admission.Attributes) (*conditionsWrite, error) {
	switch {
	case isCSR(a, "approval"), isCSR(a, "status"):
		return p.approvalOfCSR(ctx, a)
	case isCertificateRequest(a, "status"):
		return p.approvalOfRequest(ctx, a)
	default:
		return nil, nil
	}
}

func (p *certificatePolicy) approvalOfCSR(ctx context.Context, a admission.Attributes) (*conditionsWrite, error) {
	stored, err := asCSR(a, a.GetOldObject())
	if err != nil {
		return nil, err
	}
	sent, err := asCSR(a, a.GetObject())
	if err != nil {
		return nil, err
	}
	if !p.checks.ConcernStored(sent, stored) {
		return nil, nil
	}
	w := &conditionsWrite{Approval: certpolicy.OfCSR(sent, stored, a.GetSubresource())}
	w.User, w.DryRun, w.Call = p.voter(ctx, a), a.IsDryRun(), p.call(ctx)
	w.MayApprove = func(ctx context.Context) error {
		if !(signers{p.access.authz}).allow(ctx, a.GetUserInfo(), "approve", stored.Spec.SignerName) {
			return fmt.Errorf("user not permitted to approve requests with signerName %q", stored.Spec.SignerName)
		}
		return nil
	}
	w.store = func(conditions []quorum.Condition) error {
		certpolicy.ToCSR(sent, stored, conditions)
		return nil
	}
	return w, nil
}

func (p *certificatePolicy) approvalOfRequest(ctx context.Context, a admission.Attributes) (*conditionsWrite, error) {
	object, old := readObjects(a)
	sent, err := asCertificateRequest(a, object)
	if err != nil {
		return nil, err
	}
	stored, err := asCertificateRequest(a, old)
	if err != nil {
		return nil, err
	}
	w := &conditionsWrite{Approval: certpolicy.Of(sent, stored, "status")}
	w.User, w.DryRun, w.Call = p.voter(ctx, a), a.IsDryRun(), p.call(ctx)
	w.MayApprove = func(ctx context.Context) error { return p.issuers.MayApprove(ctx, userOf(a), stored) }
	w.store = func(conditions []quorum.Condition) error {
		loose, ok := a.GetObject().(*unstructured.Unstructured)
		if !ok {
			return admission.NewForbidden(a, errors.New("the request has no object"))
		}
		looseOld, _ := a.GetOldObject().(*unstructured.Unstructured)
		return certpolicy.ToUnstructured(loose, looseOld, conditions, p.policies.Now())
	}
	return w, nil
}

func (p *certificatePolicy) voter(ctx context.Context, a admission.Attributes) quorum.Voter {
	return quorum.Voter{Person: certpolicy.Person(userOf(a)), Impersonator: p.impersonator(ctx, a.GetUserInfo())}
}

// impersonator returns the name of the user who impersonates another one, or itself
// with other groups.
func (p *certificatePolicy) impersonator(ctx context.Context, acting user.Info) string {
	who := p.authenticated(ctx)
	if who == nil || acting == nil || sameUser(who, acting) {
		return ""
	}
	return who.GetName()
}

func sameUser(a, b user.Info) bool {
	return a.GetName() == b.GetName() && a.GetUID() == b.GetUID() &&
		reflect.DeepEqual(a.GetGroups(), b.GetGroups()) && reflect.DeepEqual(a.GetExtra(), b.GetExtra())
}

func isCertificateRequest(a admission.Attributes, subresource string) bool {
	return a.GetResource().GroupResource() == certpolicy.RequestsResource &&
		a.GetSubresource() == subresource
}

// asCertificateRequest converts a custom resource, which has no Go type.
func asCertificateRequest(a admission.Attributes, loose *unstructured.Unstructured) (*cmv1.CertificateRequest, error) {
	cr := &cmv1.CertificateRequest{}
	if loose == nil {
		return nil, admission.NewForbidden(a, errors.New("the request has no object"))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, cr); err != nil {
		return nil, admission.NewForbidden(a, err)
	}
	return cr, nil
}

// tell passes the outcome to the user and to the audit log.
func tell(ctx context.Context, a admission.Attributes, outcome certpolicy.Outcome) error {
	for _, text := range outcome.Warnings {
		warning.AddWarning(ctx, "", text)
	}
	for key, value := range outcome.Audit {
		if err := a.AddAnnotation(certpolicy.AuditPrefix+key, value); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot add an annotation to the audit log", "key", key)
		}
	}
	if outcome.Refusal != nil { // a nil pointer would be an error
		return outcome.Refusal
	}
	return nil
}

package decisionlog_test

import (
	"encoding/json"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func requestPEM(t *testing.T) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := pki.NewRequest(pki.Subject{DNSNames: []string{"www.example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem
}

func stub(t *testing.T) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	der, err := pki.NewStubRequest(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// set has a policy that reads every fact.
func set(t *testing.T) *certpolicy.Set {
	t.Helper()
	p := &v1alpha1.CertificatePolicy{Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit,
		Match: v1alpha1.PolicyMatch{
			Signers: []string{"*"}, Origins: []v1alpha1.RequestOrigin{v1alpha1.OriginDirect, v1alpha1.OriginCertificate},
			Access: []v1alpha1.AccessMatch{{Verb: "use"}, {Verb: "get", Group: "apps", Resource: "deployments", Subresource: "scale", Name: "web"}},
		},
		Certificate: &v1alpha1.CertificateConditions{Keys: &v1alpha1.KeyConditions{Reuse: v1alpha1.KeyReuseRefuse}},
		Rules: []v1alpha1.PolicyRule{
			{Name: "namespace", Expression: "namespaceObject.?metadata.?labels.?team.orValue('') != 'none'"},
			{Name: "owner", Expression: "request.kind != 'CertificateRequest' || owner.metadata.name == 'web'"},
			{Name: "node", Expression: "request.kind == 'CertificateRequest' || size(node.addresses) > 5"},
			{Name: "services", Expression: "request.kind != 'PodCertificateRequest' || services.size() > 5", Message: "too few services"},
		},
		Quotas: []v1alpha1.PolicyQuota{
			{Name: "hourly", Certificates: 2, Per: metav1.Duration{Duration: time.Hour}, By: v1alpha1.QuotaByRequester},
			{Name: "daily", Certificates: 9, Per: metav1.Duration{Duration: 24 * time.Hour}, By: v1alpha1.QuotaByPolicy},
		},
	}}
	p.Name = "all"
	_, errs, _ := certpolicy.Compile(p)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	keep := &v1alpha1.CertificatePolicy{Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{"*"}, Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateRequests}},
		Certificate: &v1alpha1.CertificateConditions{Keys: &v1alpha1.KeyConditions{Reuse: v1alpha1.KeyReuseRequire}},
	}}
	keep.Name = "keep"
	renew := &v1alpha1.CertificatePolicy{Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{"*"}, Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateRequests}, Requesters: &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{Users: []string{"alice"}}}},
		Approval: &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, Renewals: v1alpha1.RenewAutomatic, People: &v1alpha1.PeopleRequirement{Count: 2}},
	}}
	renew.Name = "renew"
	shadow := p.DeepCopy()
	shadow.Name, shadow.Spec.Mode = "shadow", v1alpha1.PolicyShadow
	return certpolicy.NewSet([]*v1alpha1.CertificatePolicy{p, keep, renew, shadow}, nil)
}

// used says that the first of quotas is used up, and nothing of the others.
func used(quotas []certpolicy.Quota) map[certpolicy.Quota]certpolicy.QuotaUse {
	uses := map[certpolicy.Quota]certpolicy.QuotaUse{}
	for i, q := range quotas {
		uses[q] = certpolicy.QuotaUse{Counted: i == 1}
		if i == 0 {
			uses[q] = certpolicy.QuotaUse{Used: q.Certificates, Again: now.Add(time.Minute)}
		}
	}
	return uses
}

// A decision can be made again from its line, whatever it was about.
func TestAgain(t *testing.T) {
	metadata := func(namespace, name string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", ResourceVersion: "7", Labels: map[string]string{"team": "a"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}
	}
	node := &corev1.Node{ObjectMeta: *metadata("", "n1"), Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.1"}}}}
	access := map[certpolicy.Access]bool{
		{Verb: "use", Group: v1alpha1.GroupName, Resource: "certificatepolicies", Name: "all", Namespace: "shop"}:   true,
		{Verb: "get", Group: "apps", Resource: "deployments", Subresource: "scale", Name: "web", Namespace: "shop"}: true,
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", CreationTimestamp: metav1.NewTime(now)},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "a.io/b", Request: requestPEM(t), Usages: []certificatesv1.KeyUsage{"server auth"},
			Username: "system:node:n1", Groups: []string{"system:nodes"}, Extra: map[string]certificatesv1.ExtraValue{"k": {"v"}}},
	}
	cr := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b", UID: "2", CreationTimestamp: metav1.NewTime(now)},
		Spec:       cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Name: "i"}, Request: requestPEM(t), Username: "alice"},
	}
	pcr := &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c", UID: "3", CreationTimestamp: metav1.NewTime(now)},
		Spec:       certificatesv1beta1.PodCertificateRequestSpec{SignerName: "a.io/b", PodName: "p", ServiceAccountName: "sa", NodeName: "n1", StubPKCS10Request: stub(t)},
	}
	ofPod := request.FromPodRequest(pcr)
	ofPod.Pod = &corev1.Pod{ObjectMeta: *metadata("shop", "p"), Spec: corev1.PodSpec{ServiceAccountName: "sa"}}
	ofPod.ServiceAccount, ofPod.Node, ofPod.NamespaceObject = metadata("shop", "sa"), metadata("", "n1"), metadata("", "shop")
	ofPod.Services = []request.ServiceName{{Name: "web", Namespace: "shop"}}
	direct, forCertificate := certpolicy.Known(new(v1alpha1.OriginDirect)), certpolicy.Known(new(v1alpha1.OriginCertificate))
	nobody := certpolicy.Known[metav1.ObjectMeta](nil)
	clusterAccess := map[certpolicy.Access]bool{}
	for what, allowed := range access {
		what.Namespace = ""
		clusterAccess[what] = allowed
	}
	for _, tt := range []struct {
		reason string
		object any
		in     certpolicy.Input
	}{
		{"a node's request", csr, certpolicy.Input{Request: request.FromCSR(csr), Facts: certpolicy.Facts{
			Origin: direct, Owner: nobody, Node: certpolicy.Known(node), Access: clusterAccess, Signer: certpolicy.OwnSigner(true),
		}, Patience: time.Minute}},
		{"a node that is known not to exist", csr, certpolicy.Input{Request: request.FromCSR(csr), Facts: certpolicy.Facts{
			Origin: direct, Owner: nobody, Node: certpolicy.Known[corev1.Node](nil), Access: clusterAccess,
		}}},
		{"nothing is known", csr, certpolicy.Input{Request: request.FromCSR(csr)}},
		{"a request for a Certificate", cr, certpolicy.Input{Request: request.FromCertificateRequest(cr), Facts: certpolicy.Facts{
			Origin: forCertificate, Owner: certpolicy.Known(metadata("shop", "web")), Namespace: certpolicy.Known(metadata("", "shop")), Access: access,
		}, Votes: []quorum.Vote{{Username: "bob", UID: "9", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}, Time: now.Add(-time.Hour)},
			{Username: "grace", Time: now, Override: &quorum.Override{Why: "an outage", Policies: []string{"all"}}}}}},
		{"a key that was used before", cr, certpolicy.Input{Request: request.FromCertificateRequest(cr), Facts: certpolicy.Facts{
			Origin: direct, Owner: nobody, Access: access, Keys: certpolicy.Known(&v1alpha1.StoredKeys{
				Same:     &v1alpha1.StoredRequest{Kind: v1alpha1.CertificateSigningRequests, Name: "x", UID: "8", KeyFingerprint: "k"},
				Previous: &v1alpha1.StoredRequest{Kind: v1alpha1.CertificateRequests, Namespace: "shop", Name: "a", UID: "9", KeyFingerprint: "l"},
			}),
		}}},
		{"a renewal", cr, certpolicy.Input{Request: request.FromCertificateRequest(cr), Facts: certpolicy.Facts{
			Origin: forCertificate, Owner: certpolicy.Known(metadata("shop", "web")), Namespace: certpolicy.Known(metadata("", "shop")), Access: access, Keys: certpolicy.Known(&v1alpha1.StoredKeys{}),
			Earlier: certpolicy.Known(&v1alpha1.EarlierRequests{Requests: []v1alpha1.EarlierRequest{{
				StoredRequest: v1alpha1.StoredRequest{Kind: v1alpha1.CertificateRequests, Namespace: "shop", Name: "a", UID: "9"},
				NotBefore:     metav1.NewTime(now.Add(-time.Hour)), NotAfter: metav1.NewTime(now.Add(time.Hour)),
				Votes: []v1alpha1.LoggedVote{{Username: "bob", Time: metav1.NewMicroTime(now.Add(-time.Hour))}, {Username: "carol", Time: metav1.NewMicroTime(now.Add(-time.Hour))}},
			}}}),
		}}},
		{"a new key", cr, certpolicy.Input{Request: request.FromCertificateRequest(cr), Facts: certpolicy.Facts{
			Origin: direct, Owner: nobody, Access: access, Keys: certpolicy.Known(&v1alpha1.StoredKeys{}),
		}}},
		{"a pod's request", pcr, certpolicy.Input{Request: ofPod, Facts: certpolicy.Facts{
			Origin: direct, Owner: nobody, Namespace: certpolicy.Known(metadata("", "shop")), Node: certpolicy.Known(node), Access: access,
		}}},
		{"a pod's request, of whose node the addresses were not read", pcr, certpolicy.Input{Request: ofPod, Facts: certpolicy.Facts{Origin: direct, Owner: nobody, Access: access}}},
		{"a pod's request without its pod", pcr, certpolicy.Input{Request: request.FromPodRequest(pcr), Facts: certpolicy.Facts{Origin: direct, Owner: nobody, Access: access}}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			policies := set(t)
			tt.in.Stage, tt.in.Time = v1alpha1.StageApprover, now
			if tt.in.Facts.Origin.Known {
				tt.in.Facts.Quotas = used(policies.Quotas(&tt.in.Request))
			}
			was := policies.Decide(tt.in)
			object, err := json.Marshal(tt.object)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(decisionlog.Line(was, &tt.in, object, true))
			if err != nil {
				t.Fatal(err)
			}
			line := &v1alpha1.LoggedDecision{}
			if err := json.Unmarshal(text, line); err != nil {
				t.Fatal(err)
			}
			recorded, err := decisionlog.Read(line)
			if err != nil {
				t.Fatal(err)
			}
			in, _ := recorded.Needed(policies.Needs(&recorded.Input.Request))
			if diff := cmp.Diff(was, policies.Decide(in)); diff != "" {
				t.Errorf("%s\n%s", diff, text)
			}
			again, err := json.Marshal(decisionlog.Line(was, &in, object, true))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(text), string(again)); diff != "" {
				t.Errorf("the line of what was read: %s", diff)
			}
		})
	}
}

// What a line does not say has to be looked for.
func TestNeeded(t *testing.T) {
	policies := set(t)
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: "a.io/b", Request: requestPEM(t), Usages: []certificatesv1.KeyUsage{"server auth"}, Username: "system:node:n1",
	}}
	in := certpolicy.Input{Request: request.FromCSR(csr), Facts: certpolicy.Facts{
		Origin: certpolicy.Known(new(v1alpha1.OriginDirect)), Node: certpolicy.Known(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}),
		Keys: certpolicy.Known(&v1alpha1.StoredKeys{}),
	}}
	object, _ := json.Marshal(csr)
	for reason, tt := range map[string]struct {
		full bool
		want certpolicy.Needs
	}{
		"with the facts":    {true, certpolicy.Needs{Access: policies.Needs(&in.Request).Access}},
		"without the facts": {false, certpolicy.Needs{Node: true, Access: policies.Needs(&in.Request).Access}},
	} {
		line := decisionlog.Line(policies.Decide(in), &in, object, tt.full)
		recorded, err := decisionlog.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		if _, missing := recorded.Needed(policies.Needs(&recorded.Input.Request)); cmp.Diff(tt.want, missing) != "" {
			t.Errorf("%s: %s", reason, cmp.Diff(tt.want, missing))
		}
	}
}

func TestNoObject(t *testing.T) {
	if _, err := decisionlog.Read(&v1alpha1.LoggedDecision{}); err != decisionlog.ErrNoObject {
		t.Errorf("a line without an object: %v", err)
	}
	line := &v1alpha1.LoggedDecision{}
	if err := json.Unmarshal([]byte(`{"request":{"kind":"Pod"},"object":{}}`), line); err != nil {
		t.Fatal(err)
	}
	if _, err := decisionlog.Read(line); err == nil {
		t.Error("another kind is no error")
	}
}

package facts_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: shop}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: Hostname, address: n1}]}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa, namespace: shop}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {app: web}}, spec: {nodeName: n1, serviceAccountName: sa, containers: []}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ended, namespace: shop}, spec: {nodeName: n1, serviceAccountName: sa, containers: []}, status: {phase: Failed}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}}}
---
{apiVersion: v1, kind: Service, metadata: {name: other, namespace: shop}, spec: {selector: {app: other}}}
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: web, namespace: shop, uid: "7"}, spec: {secretName: s, issuerRef: {name: i}}}
---
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: "system:serviceaccount:shop:sa", resourceAttributes: {verb: claim, resource: services, name: web, namespace: shop}}
status: {allowed: true}
`

func store(t *testing.T, text string) *facts.Store {
	t.Helper()
	documents, err := manifest.Parse("facts.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := facts.NewStore(documents)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var everything = certpolicy.Needs{Origin: true, Namespace: true, Node: true, Owner: true, Pod: true, Services: true}

// A fact is what is found, and not known otherwise.
func TestOf(t *testing.T) {
	ref := func(name, uid, kind string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: "cert-manager.io/v1", Kind: kind, Name: name, UID: "7"}
	}
	cr := func(user string, owner *metav1.OwnerReference) request.Request {
		return request.Request{Kind: v1alpha1.CertificateRequests, Namespace: "shop", Owner: owner, Requester: request.Requester{Username: user}}
	}
	for _, tt := range []struct {
		reason string
		r      request.Request
		want   string
	}{
		{"a node", request.Request{Kind: v1alpha1.CertificateSigningRequests, Requester: request.Requester{Username: "system:node:n1"}}, "origin Direct, node n1"},
		{"a node that is not there", request.Request{Kind: v1alpha1.CertificateSigningRequests, Requester: request.Requester{Username: "system:node:n2"}}, "origin Direct, node ?"},
		{"a service account", request.Request{Kind: v1alpha1.CertificateSigningRequests, Requester: request.Requester{Username: "system:serviceaccount:shop:sa"}}, "origin Direct, namespace shop"},
		{"a person in a namespace that is not there", request.Request{Kind: v1alpha1.CertificateRequests, Namespace: "ops", Requester: request.Requester{Username: "alice"}}, "origin Direct, namespace ?"},
		{"a Certificate's", cr("controller", ref("web", "7", "Certificate")), "origin Certificate, owner web, namespace shop"},
		{"by somebody else", cr("alice", ref("web", "7", "Certificate")), "origin Direct, namespace shop"},
		{"of an owner of another kind", cr("controller", ref("web", "7", "Order")), "origin Direct, namespace shop"},
		{"of a Certificate that is not there", cr("controller", ref("gone", "7", "Certificate")), "origin ?, namespace shop"},
	} {
		finder := &facts.Finder{Objects: store(t, objects), Controllers: []string{"controller"}}
		got := finder.Of(context.Background(), &tt.r, nil, everything)
		var texts []string
		if !got.Origin.Known {
			texts = append(texts, "origin ?")
		} else {
			texts = append(texts, "origin "+string(*got.Origin.Value))
		}
		if got.Owner.Value != nil {
			texts = append(texts, "owner "+got.Owner.Value.Name)
		}
		if name := certpolicy.NamespaceOf(&tt.r); name != "" {
			texts = append(texts, "namespace "+nameOr(got.Namespace))
		}
		if name := certpolicy.NodeOf(&tt.r); name != "" {
			node := "?"
			if got.Node.Known {
				node = got.Node.Value.Name
			}
			texts = append(texts, "node "+node)
		}
		if text := strings.Join(texts, ", "); text != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, text, tt.want)
		}
	}
}

func nameOr(f certpolicy.Fact[metav1.ObjectMeta]) string {
	if !f.Known {
		return "?"
	}
	return f.Value.Name
}

// Another Certificate of the same name is not the owner.
func TestOwnerUID(t *testing.T) {
	r := request.Request{Kind: v1alpha1.CertificateRequests, Namespace: "shop", Requester: request.Requester{Username: "controller"},
		Owner: &metav1.OwnerReference{APIVersion: "cert-manager.io/v1", Kind: "Certificate", Name: "web", UID: "8"}}
	finder := &facts.Finder{Objects: store(t, objects), Controllers: []string{"controller"}}
	if got := finder.Of(context.Background(), &r, nil, everything); *got.Origin.Value != v1alpha1.OriginDirect || !got.Owner.Known || got.Owner.Value != nil {
		t.Errorf("%+v", got)
	}
}

// A pod's request is completed only if everything about it is known, and true.
func TestPod(t *testing.T) {
	s := store(t, objects)
	uid, _ := s.UID(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), client.ObjectKey{Namespace: "shop", Name: "p"})
	ended, _ := s.UID(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), client.ObjectKey{Namespace: "shop", Name: "ended"})
	good := certificatesv1beta1.PodCertificateRequestSpec{PodName: "p", PodUID: uid, ServiceAccountName: "sa", NodeName: "n1"}
	for _, tt := range []struct {
		reason string
		change func(*certificatesv1beta1.PodCertificateRequestSpec)
		access policies.AccessFunc
		known  bool
		failed string
	}{
		{reason: "all is true", known: true},
		{reason: "another pod", change: func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodUID = "x" }, failed: "spec.podUID is not true"},
		{reason: "another service account", change: func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.ServiceAccountUID = "x" }, failed: "the ServiceAccount sa has the UID"},
		{reason: "a pod that has ended", change: func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodName, s.PodUID = "ended", ended }, failed: "the pod ended has terminated"},
		{reason: "no such pod", change: func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodName = "q" }},
		{reason: "it is not known which Services it may claim", access: func(context.Context, request.Requester, certpolicy.Access) (bool, error) {
			return false, policies.ErrNotKnown
		}, failed: "whether system:serviceaccount:shop:sa may claim the service web: is not known"},
	} {
		spec := good
		if tt.change != nil {
			tt.change(&spec)
		}
		var failed []error
		finder := &facts.Finder{Objects: s, Access: s.Access, Failed: func(err error) { failed = append(failed, err) }}
		if tt.access != nil {
			finder.Access = tt.access
		}
		r := request.FromPodRequest(&certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "r"}, Spec: spec})
		finder.Of(context.Background(), &r, &spec, everything)
		if known := r.Pod != nil; known != tt.known {
			t.Errorf("%s: known is %v", tt.reason, known)
		}
		if tt.known && cmp.Diff([]request.ServiceName{{Name: "web", Namespace: "shop"}}, r.Services) != "" {
			t.Errorf("%s: services %v", tt.reason, r.Services)
		}
		if err := errors.Join(failed...); (err != nil) != (tt.failed != "") || err != nil && !strings.Contains(err.Error(), tt.failed) {
			t.Errorf("%s: error %v, want %q", tt.reason, err, tt.failed)
		}
	}
}

// What users may do is known from reviews with their answers.
func TestAccess(t *testing.T) {
	s := store(t, `
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: alice, groups: [team-shop], resourceAttributes: {verb: use, group: certplane.dev, resource: certificatepolicies, name: web, namespace: shop}}
status: {allowed: true}
---
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {resourceAttributes: {verb: get, resource: pods}}
status: {allowed: false}
`)
	use := certpolicy.Access{Verb: "use", Group: "certplane.dev", Resource: "certificatepolicies", Name: "web", Namespace: "shop"}
	elsewhere := use
	elsewhere.Namespace = "ops"
	for _, tt := range []struct {
		reason string
		who    request.Requester
		what   certpolicy.Access
		want   bool
		err    error
	}{
		{"as it says", request.Requester{Username: "alice", Groups: []string{"a", "team-shop"}}, use, true, nil},
		{"without the group", request.Requester{Username: "alice"}, use, false, policies.ErrNotKnown},
		{"another user", request.Requester{Username: "bob", Groups: []string{"team-shop"}}, use, false, policies.ErrNotKnown},
		{"in another namespace", request.Requester{Username: "alice", Groups: []string{"team-shop"}}, elsewhere, false, policies.ErrNotKnown},
		{"about everybody", request.Requester{Username: "carol"}, certpolicy.Access{Verb: "get", Resource: "pods"}, false, nil},
	} {
		if got, err := s.Access(context.Background(), tt.who, tt.what); got != tt.want || err != tt.err {
			t.Errorf("%s: %v, %v", tt.reason, got, err)
		}
	}
}

func TestStore(t *testing.T) {
	for reason, tt := range map[string][2]string{
		"an unknown kind":       {"apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: a}\n", "facts.yaml:2: policies cannot read objects of the kind Foo of example.com/v1"},
		"a misspelt field":      {"apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstate: {}\n", `facts.yaml:4: unknown field "state": did you mean status?`},
		"no namespace":          {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "facts.yaml:3: metadata.namespace is missing: the Pod a is in a namespace"},
		"no name":               {"apiVersion: v1\nkind: Node\nmetadata: {}\n", "facts.yaml:3: metadata.name is missing"},
		"the same object twice": {"apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n", "facts.yaml:7: another Node is named a"},
	} {
		documents, err := manifest.Parse("facts.yaml", []byte(tt[0]))
		if err == nil {
			_, err = facts.NewStore(documents)
		}
		if err == nil || err.Error() != tt[1] {
			t.Errorf("%s: %v, want %s", reason, err, tt[1])
		}
	}
	s := store(t, objects)
	if err := s.Get(context.Background(), client.ObjectKey{Name: "x"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object that is not there: %v", err)
	}
}

// What is in files takes precedence over the API.
func TestOver(t *testing.T) {
	files := store(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {from: files}}}")
	over := facts.Over{First: files, Then: store(t, objects+"---\n{apiVersion: v1, kind: Namespace, metadata: {name: ops, labels: {from: api}}}")}
	for name, want := range map[string]string{"shop": "files", "ops": "api"} {
		namespace := &corev1.Namespace{}
		if err := over.Get(context.Background(), client.ObjectKey{Name: name}, namespace); err != nil || namespace.Labels["from"] != want {
			t.Errorf("%s: %v, from %s", name, err, namespace.Labels["from"])
		}
	}
	services := &corev1.ServiceList{}
	if err := over.List(context.Background(), services, client.InNamespace("shop")); err != nil || len(services.Items) != 2 {
		t.Errorf("%v: %d services", err, len(services.Items))
	}
	known := over.Access(func(context.Context, request.Requester, certpolicy.Access) (bool, error) { return true, nil })
	if allowed, err := known(context.Background(), request.Requester{}, certpolicy.Access{Verb: "x"}); !allowed || err != nil {
		t.Errorf("what files do not say is asked: %v %v", allowed, err)
	}
}

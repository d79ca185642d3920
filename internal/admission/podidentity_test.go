package admission

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/certplane/certplane/internal/pki"
)

// The ways in which a request is refused.
const (
	allowed = ""
	for403  = "Forbidden"
	for409  = "Conflict" // a retry can succeed
)

// declaring returns a pod on node n that asks for a certificate of
// example.com/signer.
func declaring(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	hours := int32(7200)
	pod := bound(name, "n")
	pod.Spec.ServiceAccountName = "sa"
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
		SignerName: "example.com/signer", KeyType: "ECDSAP256", MaxExpirationSeconds: &hours,
		UserAnnotations: map[string]string{"example.com/a": "b"},
	}})}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// newTestIdentity returns a plugin with the objects that the informers know and
// those in the store.
func newTestIdentity(t *testing.T, known, stored []runtime.Object) *podIdentity {
	t.Helper()
	plugin := newPodIdentity(nil).(*podIdentity)
	if plugin.ValidateInitialization() == nil {
		t.Error("works without anything")
	}
	shared := informers.NewSharedInformerFactory(nil, 0)
	plugin.SetExternalKubeInformerFactory(shared)
	plugin.SetExternalKubeClientSet(fake.NewClientset(stored...))
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	core := shared.Core().V1()
	for _, obj := range known {
		var err error
		switch obj := obj.(type) {
		case *corev1.Pod:
			err = core.Pods().Informer().GetIndexer().Add(obj)
		case *corev1.Node:
			err = core.Nodes().Informer().GetIndexer().Add(obj)
		case *corev1.ServiceAccount:
			err = core.ServiceAccounts().Informer().GetIndexer().Add(obj)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return plugin
}

func account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-sa"}}
}

func requestFor(t *testing.T, pod *corev1.Pod, keyType pki.KeyType) *podRequest {
	t.Helper()
	key, err := pki.GenerateKey(keyType)
	if err != nil {
		t.Fatal(err)
	}
	source := pod.Spec.Volumes[0].Projected.Sources[0].PodCertificate
	request := &podRequest{}
	request.Spec.SignerName = source.SignerName
	request.Spec.PodName, request.Spec.PodUID = pod.Name, pod.UID
	request.Spec.ServiceAccountName, request.Spec.ServiceAccountUID = "sa", "uid-sa"
	request.Spec.NodeName, request.Spec.NodeUID = "n", "uid-n"
	request.Spec.MaxExpirationSeconds = source.MaxExpirationSeconds
	request.Spec.UnverifiedUserAnnotations = source.UserAnnotations
	request.Spec.StubPKCS10Request = stub(t, key)
	return request
}

func stub(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestPodIdentity(t *testing.T) {
	hour, day := int32(3600), int32(86400)
	for _, tt := range []struct {
		reason string
		pod    func(*corev1.Pod)
		edit   func(*podRequest)
		want   string
	}{
		{reason: "as the pod says", want: allowed},
		{reason: "a node that was", edit: func(r *podRequest) { r.Spec.NodeUID = "old" }, want: for409},
		{reason: "no such node", edit: func(r *podRequest) { r.Spec.NodeName = "x" }, want: for409},
		{reason: "a pod that was", edit: func(r *podRequest) { r.Spec.PodUID = "old" }, want: for409},
		{reason: "no such pod", edit: func(r *podRequest) { r.Spec.PodName = "x" }, want: for409},
		{reason: "an account that was", edit: func(r *podRequest) { r.Spec.ServiceAccountUID = "old" }, want: for409},
		{reason: "the account of another pod", edit: func(r *podRequest) { r.Spec.ServiceAccountName = "x" }, want: for403},
		{reason: "no such account", pod: func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" }, edit: func(r *podRequest) { r.Spec.ServiceAccountName = "x" }, want: for409},
		{reason: "a pod of another node", pod: func(p *corev1.Pod) { p.Spec.NodeName = "m" }, want: for403},
		{reason: "a pod of no node", pod: func(p *corev1.Pod) { p.Spec.NodeName = "" }, want: for403},
		{reason: "a mirror pod", pod: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, want: for403},
		{reason: "a pod that is done", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, want: for403},
		{reason: "a pod that has failed", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, want: for403},
		{reason: "a pod that is being deleted still works", pod: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{}; p.Finalizers = []string{"a.b/c"} }, want: allowed},

		{reason: "a signer that the pod does not name", edit: func(r *podRequest) { r.Spec.SignerName = "example.com/other" }, want: for403},
		{reason: "longer than the pod asks", edit: func(r *podRequest) { r.Spec.MaxExpirationSeconds = &day }, want: for403},
		{reason: "shorter than the pod asks", edit: func(r *podRequest) { r.Spec.MaxExpirationSeconds = &hour }, want: allowed},
		{reason: "a day when the pod says nothing", pod: func(p *corev1.Pod) { certificateOf(p).MaxExpirationSeconds = nil }, edit: func(r *podRequest) { r.Spec.MaxExpirationSeconds = &day }, want: allowed},
		{reason: "no annotations when the pod has some", edit: func(r *podRequest) { r.Spec.UnverifiedUserAnnotations = nil }, want: for403},
		{reason: "other annotations", edit: func(r *podRequest) { r.Spec.UnverifiedUserAnnotations = map[string]string{"example.com/a": "c"} }, want: for403},
		{reason: "another type of key", pod: func(p *corev1.Pod) { certificateOf(p).KeyType = "ED25519" }, want: for403},
		{reason: "a key that validation refuses", edit: func(r *podRequest) { r.Spec.StubPKCS10Request = []byte("x") }, want: allowed},
		{reason: "a pod without certificates", pod: func(p *corev1.Pod) { p.Spec.Volumes = nil }, want: for403},
		{reason: "a pod with other volumes", pod: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{VolumeSource: tokenVolume("a")}, {}} }, want: for403},
		{reason: "the second of two sources", pod: func(p *corev1.Pod) {
			p.Spec.Volumes = append([]corev1.Volume{{VolumeSource: projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: "a.b/c"}})}}, p.Spec.Volumes...)
		}, want: allowed},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			pod := declaring("p")
			request := requestFor(t, pod, pki.ECDSAP256)
			if tt.pod != nil {
				tt.pod(pod)
			}
			if tt.edit != nil {
				tt.edit(request)
			}
			there := []runtime.Object{pod, node("n"), node("m"), account("sa")}
			for where, plugin := range map[string]*podIdentity{
				"known":  newTestIdentity(t, there, nil),
				"stored": newTestIdentity(t, nil, there),
			} {
				if where == "known" && tt.want != allowed {
					continue // the store decides, and is empty here
				}
				err := plugin.Validate(context.Background(), creation(request, alice), nil)
				if got := string(apierrors.ReasonForError(err)); err == nil && tt.want != "" || err != nil && got != tt.want {
					t.Errorf("%s: got %v, want %q", where, err, tt.want)
				}
			}
		})
	}
}

func certificateOf(pod *corev1.Pod) *corev1.PodCertificateProjection {
	return pod.Spec.Volumes[0].Projected.Sources[0].PodCertificate
}

func creation(request *podRequest, who user.Info) admission.Attributes {
	return admission.NewAttributesRecord(request, nil, schema.GroupVersionKind{}, "ns", "", podRequests.WithVersion("v1"), "", create, nil, false, who)
}

// Objects that informers have not seen yet are in the store; objects that
// informers still have are compared with the store.
func TestPodIdentityAsksTheStore(t *testing.T) {
	pod := declaring("p")
	request := requestFor(t, pod, pki.ECDSAP256)
	unbound := declaring("p", func(p *corev1.Pod) { p.Spec.NodeName = "" })
	old := declaring("p", func(p *corev1.Pod) { p.UID = "old" })
	stored := []runtime.Object{pod, node("n"), account("sa")}
	for reason, known := range map[string][]runtime.Object{
		"nothing is known":        nil,
		"the pod is unknown":      {node("n"), account("sa")},
		"before it was bound":     {unbound, node("n"), account("sa")},
		"the pod of before":       {old, node("n"), account("sa")},
		"everything is known":     stored,
		"known, and in the store": {pod, node("n"), account("sa")},
	} {
		if err := newTestIdentity(t, known, stored).Validate(context.Background(), creation(request, alice), nil); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
	err := newTestIdentity(t, nil, nil).Validate(context.Background(), creation(request, alice), nil)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `nodes "n" not found`) {
		t.Errorf("nowhere: %v", err)
	}
}

// A node can request certificates in its own name, but only create the
// requests.
func TestNodeAsksForPodCertificates(t *testing.T) {
	pod := declaring("p")
	other := requestFor(t, pod, pki.ECDSAP256)
	other.Spec.NodeName, other.Spec.NodeUID = "m", "uid-m"
	nosuch := requestFor(t, pod, pki.ECDSAP256)
	nosuch.Spec.NodeName = "nosuch"
	lost := requestFor(t, pod, pki.ECDSAP256)
	lost.Spec.PodName = "nosuch"
	good := requestFor(t, pod, pki.ECDSAP256)
	for _, tt := range []struct {
		reason string
		do     attempt
		want   string
	}{
		{"for its pod", attempt{op: create, resource: podRequests, name: "ns/", obj: good}, allowed},
		{"in the name of another node", attempt{op: create, resource: podRequests, name: "ns/", obj: other}, for403},
		{"in the name of no node", attempt{op: create, resource: podRequests, name: "ns/", obj: nosuch}, for403},
		{"for a pod that is not there", attempt{op: create, resource: podRequests, name: "ns/", obj: lost}, for409},
		{"in another namespace", attempt{op: create, resource: podRequests, name: "other/", obj: good}, for409},
		{"a change", attempt{op: change, resource: podRequests, name: "ns/x", obj: good, old: good}, for403},
		{"an answer", attempt{op: change, resource: podRequests, sub: "status", name: "ns/x", obj: good, old: good}, for403},
		{"a deletion", attempt{op: remove, resource: podRequests, name: "ns/x"}, for403},
		{"through a subresource", attempt{op: create, resource: podRequests, sub: "status", name: "ns/x", obj: good}, for403},
		{"something else", attempt{op: create, resource: podRequests, name: "ns/", obj: pod}, for403},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			plugin := newTestRestriction(t)
			plugin.objects = newTestIdentity(t, []runtime.Object{pod, node("n"), node("m"), account("sa")}, nil).objects
			err := try(plugin, tt.do, &user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}})
			if got := string(apierrors.ReasonForError(err)); err == nil && tt.want != "" || err != nil && got != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

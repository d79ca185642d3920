package admission

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/internal/pki"
)

var csrs = certificatesv1.Resource("certificatesigningrequests")

// node returns a node; labels have the form key=value.
func node(name string, labels ...string) *corev1.Node {
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		made.Labels[key] = value
	}
	return made
}

func tainted(name string) *corev1.Node {
	made := node(name)
	made.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	return made
}

func owned(name string) *corev1.Node {
	made := node(name)
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "nosuch", UID: "x"}}
	return made
}

func lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// mirror returns a pod that node n may create, after an edit.
func mirror(edit func(*corev1.Pod)) *corev1.Pod {
	yes := true
	pod := bound("mirror", "n")
	pod.Spec.Volumes = nil
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "uid-n", Controller: &yes}}
	if edit != nil {
		edit(pod)
	}
	return pod
}

func owner(edit func(*metav1.OwnerReference)) *corev1.Pod {
	return mirror(func(p *corev1.Pod) { edit(&p.OwnerReferences[0]) })
}

func volume(source corev1.VolumeSource) *corev1.Pod {
	return mirror(func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{VolumeSource: source}} })
}

func projected(source corev1.VolumeProjection) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}}
}

func tokenVolume(audience string) corev1.VolumeSource {
	return projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience}})
}

// bound returns a pod on a node that names the audience vault.
func bound(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{VolumeSource: tokenVolume("vault")}}},
	}
}

func labelled(name string) *corev1.Pod {
	pod := bound(name, "n")
	pod.Labels = map[string]string{"app": "bank"}
	return pod
}

func tokenFor(kind, name, uid string, audiences ...string) attempt {
	return attempt{op: create, resource: corev1.Resource("serviceaccounts"), sub: "token", name: "ns/sa", obj: &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:      audiences,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(uid)},
		},
	}}
}

func csrFor(t *testing.T, signer, commonName string) attempt {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.NewRequest(pki.Subject{CommonName: commonName}, key)
	if err != nil {
		t.Fatal(err)
	}
	return attempt{op: create, resource: csrs, obj: &csr{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: request}}}
}

// hosted returns a pod that node n may create for the service account that it
// may host, after an edit.
func hosted(edit func(*corev1.Pod)) *corev1.Pod {
	return mirror(func(p *corev1.Pod) {
		p.Annotations = nil
		p.Spec.ServiceAccountName = "granted"
		p.Spec.Volumes = []corev1.Volume{
			{VolumeSource: projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/s"}})},
			{VolumeSource: projected(corev1.VolumeProjection{ConfigMap: configMapSource("kube-root-ca.crt")})},
			{VolumeSource: tokenVolume("vault")},
		}
		if edit != nil {
			edit(p)
		}
	})
}

// hostedWith is hosted with one more source.
func hostedWith(source corev1.VolumeSource) *corev1.Pod {
	return hosted(func(p *corev1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: source}) })
}

func configMapSource(name string) *corev1.ConfigMapProjection {
	return &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
}

func secretSource(name string) *corev1.SecretProjection {
	return &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
}

// audienceRules let the account ns/sa get tokens for the audience "granted",
// and node n host objects called "granted" in ns.
type audienceRules struct{}

func (*audienceRules) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == audienceVerb && a.GetResource() == "granted" && a.GetNamespace() == "ns" && a.GetName() == "sa" && a.IsResourceRequest() {
		return authorizer.DecisionAllow, "", nil
	}
	if a.GetVerb() == hostVerb && a.GetName() == "granted" && a.GetNamespace() == "ns" && a.GetAPIGroup() == "" && a.GetUser().GetName() == "system:node:n" && a.IsResourceRequest() {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

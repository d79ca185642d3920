package admission

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

const (
	create = admission.Create
	change = admission.Update
	remove = admission.Delete
)

// attempt is a write by node n.
type attempt struct {
	op       admission.Operation
	resource schema.GroupResource
	sub      string
	name     string // namespace/name
	obj, old runtime.Object
}

func TestNodeRestriction(t *testing.T) {
	core, leases := corev1.Resource, coordinationv1.Resource("leases")
	tests := []struct {
		reason string
		do     attempt
		want   string // part of the refusal
	}{
		{"its own node", attempt{op: create, resource: core("nodes"), obj: node("n")}, ""},
		{"another node", attempt{op: create, resource: core("nodes"), obj: node("m")}, `is not allowed to modify node "m"`},
		{"labels of a machine", attempt{op: create, resource: core("nodes"), obj: node("n", "kubernetes.io/os=linux", "node.kubernetes.io/x=", "a.kubelet.kubernetes.io/x=", "plain=", "example.com/x=", "topology.kubernetes.io/zone=z")}, ""},
		{"a label that pods are kept to", attempt{op: create, resource: core("nodes"), obj: node("n", "node-restriction.kubernetes.io/tier=pci")}, "not allowed to set the following labels: node-restriction.kubernetes.io/tier"},
		{"below that domain", attempt{op: create, resource: core("nodes"), obj: node("n", "example.node-restriction.kubernetes.io/tier=pci")}, "not allowed to set"},
		{"a label that is Kubernetes'", attempt{op: create, resource: core("nodes"), obj: node("n", "kubernetes.io/role=master", "x.k8s.io/y=")}, "kubernetes.io/role, x.k8s.io/y"},
		{"its status", attempt{op: change, resource: core("nodes"), sub: "status", name: "/n", obj: node("n"), old: node("n")}, ""},
		{"the status of another", attempt{op: change, resource: core("nodes"), sub: "status", name: "/m", obj: node("m"), old: node("m")}, `is not allowed to modify node "m"`},
		{"an old label that stays", attempt{op: change, resource: core("nodes"), name: "/n", obj: node("n", "node-restriction.kubernetes.io/a=1", "new="), old: node("n", "node-restriction.kubernetes.io/a=1")}, ""},
		{"a label that goes", attempt{op: change, resource: core("nodes"), name: "/n", obj: node("n"), old: node("n", "node-restriction.kubernetes.io/a=1")}, "not allowed to modify labels: node-restriction"},
		{"a label that changes", attempt{op: change, resource: core("nodes"), name: "/n", obj: node("n", "node-restriction.kubernetes.io/a=2"), old: node("n", "node-restriction.kubernetes.io/a=1")}, "not allowed to modify labels"},
		{"no more taints", attempt{op: change, resource: core("nodes"), name: "/n", obj: node("n"), old: tainted("n")}, "modify taints"},
		{"an owner", attempt{op: change, resource: core("nodes"), name: "/n", obj: owned("n"), old: node("n")}, "modify ownerReferences"},
		{"an owner from the beginning", attempt{op: create, resource: core("nodes"), obj: owned("n")}, "modify ownerReferences"},
		{"deleting another node", attempt{op: remove, resource: core("nodes"), name: "/m"}, `is not allowed to modify node "m"`},

		{"its lease", attempt{op: create, resource: leases, name: "kube-node-lease/", obj: lease("n")}, ""},
		{"another's lease", attempt{op: create, resource: leases, name: "kube-node-lease/", obj: lease("m")}, "with the same name"},
		{"another's lease, later", attempt{op: change, resource: leases, name: "kube-node-lease/m", obj: lease("m"), old: lease("m")}, "with the same name"},
		{"a leader's lease", attempt{op: change, resource: leases, name: "kube-system/n", obj: lease("n"), old: lease("n")}, "kube-node-lease"},

		{"a mirror", attempt{op: create, resource: core("pods"), name: "ns/", obj: mirror(nil)}, ""},
		{"a pod that is none", attempt{op: create, resource: core("pods"), name: "ns/", obj: mirror(func(p *corev1.Pod) { p.Annotations = nil })}, "only create mirror pods"},
		{"on another node", attempt{op: create, resource: core("pods"), name: "ns/", obj: mirror(func(p *corev1.Pod) { p.Spec.NodeName = "m" })}, "spec.nodeName set to itself"},
		{"nobody's", attempt{op: create, resource: core("pods"), name: "ns/", obj: mirror(func(p *corev1.Pod) { p.OwnerReferences = nil })}, "with an owner reference"},
		{"somebody else's too", attempt{op: create, resource: core("pods"), name: "ns/", obj: mirror(func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0]) })}, "single owner"},
		{"another node's", attempt{op: create, resource: core("pods"), name: "ns/", obj: owner(func(o *metav1.OwnerReference) { o.Name = "m" })}, "with an owner reference"},
		{"not controlled", attempt{op: create, resource: core("pods"), name: "ns/", obj: owner(func(o *metav1.OwnerReference) { o.Controller = nil })}, "controller owner"},
		{"in the way of deletion", attempt{op: create, resource: core("pods"), name: "ns/", obj: owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = o.Controller })}, "blockOwnerDeletion"},
		{"of a node that was", attempt{op: create, resource: core("pods"), name: "ns/", obj: owner(func(o *metav1.OwnerReference) { o.UID = "old" })}, "UID mismatch"},
		{"with an account", attempt{op: create, resource: core("pods"), name: "ns/", obj: mirror(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" })}, "reference serviceaccounts"},
		{"with a Secret", attempt{op: create, resource: core("pods"), name: "ns/", obj: mirror(func(p *corev1.Pod) {
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "x"}}
		})}, "reference secrets"},
		{"with a ConfigMap", attempt{op: create, resource: core("pods"), name: "ns/", obj: volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}})}, "reference configmaps"},
		{"with a token", attempt{op: create, resource: core("pods"), name: "ns/", obj: volume(tokenVolume("a"))}, "reference serviceaccounts"},
		{"with a bundle", attempt{op: create, resource: core("pods"), name: "ns/", obj: volume(projected(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}))}, "reference clustertrustbundles"},
		{"with a certificate", attempt{op: create, resource: core("pods"), name: "ns/", obj: volume(projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}))}, "reference podcertificates"},
		{"with a disk", attempt{op: create, resource: core("pods"), name: "ns/", obj: volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}})}, "reference persistentvolumeclaims"},
		{"a pod of an account that it may host", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(nil)}, ""},
		{"a pod of such an account by its older name", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) {
			p.Spec.DeprecatedServiceAccount, p.Spec.ServiceAccountName = p.Spec.ServiceAccountName, ""
		})}, ""},
		{"a pod of another account", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "other" })}, "not ns/other"},
		{"a pod of another account under a granted older name", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) {
			p.Spec.DeprecatedServiceAccount, p.Spec.ServiceAccountName = "granted", "other"
		})}, "not ns/other"},
		{"a pod of no account, which is the default one", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "" })}, "not ns/default"},
		{"the account of that name elsewhere", attempt{op: create, resource: core("pods"), name: "bank/", obj: hosted(nil)}, "not bank/granted"},
		{"hosted on another node", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) { p.Spec.NodeName = "m" })}, "spec.nodeName set to itself"},
		{"hosted by nobody", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) { p.OwnerReferences = nil })}, "with an owner reference"},
		{"hosted by a node that was", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "old" })}, "UID mismatch"},
		{"hosted, and a mirror", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		})}, "reference serviceaccounts"},
		{"hosted with a granted ConfigMap", attempt{op: create, resource: core("pods"), name: "ns/", obj: hostedWith(projected(corev1.VolumeProjection{ConfigMap: configMapSource("granted")}))}, ""},
		{"hosted with any ConfigMap", attempt{op: create, resource: core("pods"), name: "ns/", obj: hostedWith(projected(corev1.VolumeProjection{ConfigMap: configMapSource("other")}))}, "on configmap ns/other"},
		{"hosted with a granted Secret", attempt{op: create, resource: core("pods"), name: "ns/", obj: hostedWith(projected(corev1.VolumeProjection{Secret: secretSource("granted")}))}, ""},
		{"hosted with any Secret", attempt{op: create, resource: core("pods"), name: "ns/", obj: hostedWith(projected(corev1.VolumeProjection{Secret: secretSource("other")}))}, "on secret ns/other"},
		{"hosted with a Secret called as the public ConfigMap", attempt{op: create, resource: core("pods"), name: "ns/", obj: hostedWith(projected(corev1.VolumeProjection{Secret: secretSource("kube-root-ca.crt")}))}, "on secret ns/kube-root-ca.crt"},
		{"hosted with a Secret to pull by", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) {
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "other"}}
		})}, "on secret ns/other"},
		{"hosted with a disk", attempt{op: create, resource: core("pods"), name: "ns/", obj: hostedWith(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}})}, "reference persistentvolumeclaims"},
		{"hosted with a device", attempt{op: create, resource: core("pods"), name: "ns/", obj: hosted(func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x"}}
		})}, "reference resourceclaims"},
		{"its pod goes", attempt{op: remove, resource: core("pods"), name: "ns/mine"}, ""},
		{"the pod of another goes", attempt{op: remove, resource: core("pods"), name: "ns/theirs"}, "can only delete pods"},
		{"an unseen pod goes", attempt{op: remove, resource: core("pods"), name: "ns/unseen"}, "not found"},
		{"its pod is evicted", attempt{op: create, resource: core("pods"), sub: "eviction", name: "ns/mine"}, ""},
		{"the pod of another is evicted", attempt{op: create, resource: core("pods"), sub: "eviction", name: "ns/theirs"}, "can only evict pods"},
		{"its pod changes", attempt{op: change, resource: core("pods"), name: "ns/mine", obj: bound("mine", "n"), old: bound("mine", "n")}, "unexpected operation"},
		{"its pod is bound again", attempt{op: create, resource: core("pods"), sub: "binding", name: "ns/mine"}, "unexpected pod subresource"},
		{"the status of its pod", attempt{op: change, resource: core("pods"), sub: "status", name: "ns/mine", obj: bound("mine", "n"), old: bound("mine", "n")}, ""},
		{"the status of another's, taken over", attempt{op: change, resource: core("pods"), sub: "status", name: "ns/theirs", obj: bound("theirs", "n"), old: bound("theirs", "m")}, "can only update pod status"},
		{"labels by way of the status", attempt{op: change, resource: core("pods"), sub: "status", name: "ns/mine", obj: labelled("mine"), old: bound("mine", "n")}, "cannot update labels"},

		{"a token for its pod", tokenFor("Pod", "mine", "uid-mine", "vault"), ""},
		{"a token for no pod", attempt{op: create, resource: core("serviceaccounts"), sub: "token", name: "ns/sa", obj: &authenticationv1.TokenRequest{}}, "not bound to a pod"},
		{"a token for a Secret", tokenFor("Secret", "mine", "uid-mine", "vault"), "not bound to a pod"},
		{"a token for any pod of that name", tokenFor("Pod", "mine", "", "vault"), "without a uid"},
		{"a token for a pod that was", tokenFor("Pod", "mine", "uid-old", "vault"), "does not match"},
		{"a token for the pod of another", tokenFor("Pod", "theirs", "uid-theirs", "vault"), "different node"},
		{"a token for an unseen pod", tokenFor("Pod", "unseen", "uid", "vault"), "not found"},
		{"an audience that the pod does not name", tokenFor("Pod", "mine", "uid-mine", "bank"), `audience "bank" not found`},
		{"an audience that a role grants", tokenFor("Pod", "mine", "uid-mine", "granted"), ""},
		{"two audiences", tokenFor("Pod", "mine", "uid-mine", "vault", "bank"), "0 or 1 audiences"},
		{"the server as the audience, unnamed by the pod", tokenFor("Pod", "mine", "uid-mine"), `audience "" not found`},
		{"the account itself is for authorization to say", attempt{op: change, resource: core("serviceaccounts"), name: "ns/sa", obj: &corev1.ServiceAccount{}}, ""},

		{"its own certificate", csrFor(t, certificatesv1.KubeAPIServerClientKubeletSignerName, "system:node:n"), ""},
		{"its own serving certificate", csrFor(t, certificatesv1.KubeletServingSignerName, "system:node:n"), ""},
		{"another's certificate", csrFor(t, certificatesv1.KubeAPIServerClientKubeletSignerName, "system:node:m"), "can only create a node CSR with CN=system:node:n"},
		{"another's serving certificate", csrFor(t, certificatesv1.KubeletServingSignerName, "system:node:m"), "can only create a node CSR"},
		{"another signer's business", csrFor(t, "example.com/x", "anybody"), ""},
		{"no request", attempt{op: create, resource: csrs, obj: &csr{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName, Request: []byte("x")}}}, "unable to parse csr"},
		{"what nobody restricts", attempt{op: create, resource: core("events"), name: "ns/", obj: &corev1.Event{}}, ""},
	}
	plugin := newTestRestriction(t)
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			err := try(plugin, tt.do, &user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}})
			if tt.want == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want a refusal: %s", err, tt.want)
			}
			if tt.want != "" && tt.want != "not found" && !apierrors.IsForbidden(err) {
				t.Errorf("the refusal is not 403: %v", err)
			}
		})
	}
}

// The plugin does not apply to users that are not nodes; a node user with an
// empty node name can write nothing.
func TestNodeRestrictionIdentity(t *testing.T) {
	plugin := newTestRestriction(t)
	write := attempt{op: create, resource: corev1.Resource("nodes"), obj: node("m")}
	for reason, who := range map[string]*user.DefaultInfo{
		"an administrator":    {Name: "root", Groups: []string{"system:masters"}},
		"the name alone":      {Name: "system:node:n"},
		"the group alone":     {Name: "n", Groups: []string{user.NodesGroup}},
		"the node it is, too": {Name: "system:node:m", Groups: []string{user.NodesGroup}},
	} {
		if err := try(plugin, write, who); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
	err := try(plugin, attempt{op: create, resource: corev1.Resource("events"), obj: &corev1.Event{}}, &user.DefaultInfo{Name: "system:node:", Groups: []string{user.NodesGroup}})
	if err == nil || !strings.Contains(err.Error(), "could not determine node") {
		t.Errorf("a node without a name: %v", err)
	}
}

// newTestRestriction returns a plugin that knows node n and the pods "mine" and
// "theirs" of ns.
func newTestRestriction(t *testing.T) *nodeRestriction {
	t.Helper()
	plugin := newNodeRestriction(&audienceRules{}).(*nodeRestriction)
	shared := informers.NewSharedInformerFactory(nil, 0)
	plugin.SetExternalKubeInformerFactory(shared)
	plugin.SetExternalKubeClientSet(fake.NewClientset())
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	v1 := shared.Core().V1()
	for _, pod := range []*corev1.Pod{bound("mine", "n"), bound("theirs", "m")} {
		if err := v1.Pods().Informer().GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	if err := v1.Nodes().Informer().GetIndexer().Add(node("n")); err != nil {
		t.Fatal(err)
	}
	return plugin
}

func try(plugin *nodeRestriction, do attempt, who user.Info) error {
	namespace, name, _ := strings.Cut(do.name, "/")
	record := admission.NewAttributesRecord(do.obj, do.old, schema.GroupVersionKind{}, namespace, name,
		do.resource.WithVersion("v1"), do.sub, do.op, nil, false, who)
	if !plugin.Handles(do.op) {
		return nil
	}
	return plugin.Admit(context.Background(), record, nil)
}

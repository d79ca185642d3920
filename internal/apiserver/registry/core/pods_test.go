package core_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: named(name),
		Spec: corev1.PodSpec{
			NodeName:   "node-1",
			Containers: []corev1.Container{{Name: "c", Image: "example.com:5000/c"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func TestPods(t *testing.T) {
	w := start(t)
	pods := w.core.Pods(w.namespace)
	for _, tt := range []struct {
		reason string
		edit   func(*corev1.PodSpec)
		want   string
	}{
		{"nothing to run", func(s *corev1.PodSpec) { s.Containers = nil }, "422 spec.containers: FieldValueRequired"},
		{"no image", func(s *corev1.PodSpec) { s.Containers[0].Image = "" }, "422 spec.containers[0].image: FieldValueRequired"},
		{"a name twice", func(s *corev1.PodSpec) { s.InitContainers = s.Containers }, "422 spec.initContainers[0].name: FieldValueDuplicate"},
		{"no account can be called so", func(s *corev1.PodSpec) { s.ServiceAccountName = "A" }, "422 spec.serviceAccountName: FieldValueInvalid"},
		{"no node can be called so", func(s *corev1.PodSpec) { s.NodeName = "a/b" }, "422 spec.nodeName: FieldValueInvalid"},
		{"two types in one volume", func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{}, Projected: &corev1.ProjectedVolumeSource{},
			}}}
		}, "422 spec.volumes[0].projected: FieldValueForbidden"},
		{"no such policy", func(s *corev1.PodSpec) { s.RestartPolicy = "Sometimes" }, "422 spec.restartPolicy: FieldValueNotSupported"},
	} {
		pod := newPod("a")
		tt.edit(&pod.Spec)
		if _, err := pods.Create(t.Context(), pod, create); causes(err) != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, causes(err), tt.want)
		}
	}

	pod, err := pods.Create(t.Context(), newPod("a"), create)
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.Phase != corev1.PodPending || pod.Status.QOSClass != corev1.PodQOSBestEffort || pod.Generation != 1 ||
		pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("created: %+v", pod)
	}

	if pod.Spec.ServiceAccountName != "default" {
		t.Errorf("the pod's account is %q", pod.Spec.ServiceAccountName)
	}
	mirror := newPod("mirror")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	if mirror, err := pods.Create(t.Context(), mirror, create); err != nil || mirror.Spec.ServiceAccountName != "" {
		t.Errorf("what a node shows: %+v, %v", mirror, err)
	}
	if err := pods.Delete(t.Context(), "mirror", remove); err != nil {
		t.Fatal(err)
	}

	pod.Status.Phase, pod.Spec.NodeName = corev1.PodRunning, "node-2"
	pod, err = pods.UpdateStatus(t.Context(), pod, update)
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Spec.NodeName != "node-1" {
		t.Errorf("through /status: phase %s on %s", pod.Status.Phase, pod.Spec.NodeName)
	}

	for selector, want := range map[string]int{
		"spec.nodeName=node-1": 1, "spec.nodeName=node-2": 0, "status.phase=Running": 1, "spec.serviceAccountName=x": 0,
	} {
		list, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list.Items) != want {
			t.Errorf("selecting %s: %d pods, %v, want %d", selector, len(list.Items), err, want)
		}
	}

	got := apitest.Table(t, w.Admin(t), "/api/v1/namespaces/"+w.namespace+"/pods")
	if !strings.HasPrefix(got, "Name|Ready|Status|Restarts|Age\na|0/1|Running|0|") {
		t.Errorf("table:\n%s", got)
	}
	// No node has to end it first.
	if err := pods.Delete(t.Context(), "a", remove); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Get(t.Context(), "a", get); causes(err) != `404 pods "a" not found` {
		t.Errorf("after its deletion: %s", causes(err))
	}
}

func TestPodUpdates(t *testing.T) {
	w := start(t)
	pods := w.core.Pods(w.namespace)
	stored := newPod("a")
	stored.Spec.ActiveDeadlineSeconds = ptr.To[int64](100)
	stored.Spec.TerminationGracePeriodSeconds = ptr.To[int64](-1)
	stored.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	stored.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/a"}, {Name: "example.com/b"}}
	stored, err := pods.Create(t.Context(), stored, create)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		reason string
		edit   func(*corev1.PodSpec)
		want   string
	}{
		{"another image", func(s *corev1.PodSpec) { s.Containers[0].Image = "example.com/other" }, "<nil>"},
		{"no image", func(s *corev1.PodSpec) { s.Containers[0].Image = "" }, "422 spec.containers[0].image: FieldValueRequired"},
		{"an earlier end", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](99) }, "<nil>"},
		{"a later end", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](101) }, "422 spec.activeDeadlineSeconds: FieldValueInvalid"},
		{"no end", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = nil }, "422 spec.activeDeadlineSeconds: FieldValueInvalid"},
		{"a negative grace period becomes 1", func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr.To[int64](1) }, "<nil>"},
		{"another grace period", func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr.To[int64](5) }, "422 spec: FieldValueForbidden"},
		{"one more toleration", func(s *corev1.PodSpec) {
			s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: "l", Operator: corev1.TolerationOpExists})
		}, "<nil>"},
		{"one toleration less", func(s *corev1.PodSpec) { s.Tolerations = nil }, "422 spec.tolerations: FieldValueForbidden"},
		{"one gate less", func(s *corev1.PodSpec) { s.SchedulingGates = s.SchedulingGates[1:] }, "<nil>"},
		{"another gate", func(s *corev1.PodSpec) { s.SchedulingGates[0].Name = "example.com/c" }, "422 spec.schedulingGates[0].name: FieldValueForbidden"},
		{"another node", func(s *corev1.PodSpec) { s.NodeName = "node-2" }, "422 spec: FieldValueForbidden"},
		{"another account", func(s *corev1.PodSpec) { s.ServiceAccountName = "b" }, "422 spec: FieldValueForbidden"},
		{"one more container", func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "d", Image: "d"})
		}, "422 spec: FieldValueForbidden"},
		{"other resources", func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, "422 spec: FieldValueForbidden"},
	} {
		pod := stored.DeepCopy()
		pod.ResourceVersion = ""
		tt.edit(&pod.Spec)
		_, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if causes(err) != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, causes(err), tt.want)
		}
	}
}

// The annotations that determined a pod's admission cannot change, and its
// status does not end it.
func TestPodMetadataIsFixed(t *testing.T) {
	w := start(t)
	pods := w.core.Pods(w.namespace)
	const appArmor = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "c"
	stored := newPod("mirror")
	stored.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x", "free": "y"}
	stored, err := pods.Create(t.Context(), stored, create)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := pods.Create(t.Context(), newPod("plain"), create)
	if err != nil {
		t.Fatal(err)
	}
	dry := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, tt := range []struct {
		reason string
		pod    *corev1.Pod
		edit   func(map[string]string)
		want   string
	}{
		{"no change", stored, func(map[string]string) {}, "<nil>"},
		{"another annotation", stored, func(a map[string]string) { delete(a, "free") }, "<nil>"},
		{"a mirror no more", stored, func(a map[string]string) { delete(a, corev1.MirrorPodAnnotationKey) },
			"422 metadata.annotations[kubernetes.io/config.mirror]: FieldValueForbidden"},
		{"the mirror of another", stored, func(a map[string]string) { a[corev1.MirrorPodAnnotationKey] = "z" },
			"422 metadata.annotations[kubernetes.io/config.mirror]: FieldValueForbidden"},
		{"a mirror now", plain, func(a map[string]string) { a[corev1.MirrorPodAnnotationKey] = "" },
			"422 metadata.annotations[kubernetes.io/config.mirror]: FieldValueForbidden"},
		{"another confinement", plain, func(a map[string]string) { a[appArmor] = "unconfined" },
			"422 metadata.annotations[" + appArmor + "]: FieldValueForbidden"},
	} {
		for way, write := range map[string]func(context.Context, *corev1.Pod, metav1.UpdateOptions) (*corev1.Pod, error){
			"the pod": pods.Update, "its status": pods.UpdateStatus,
		} {
			pod := tt.pod.DeepCopy()
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			tt.edit(pod.Annotations)
			if _, err := write(t.Context(), pod, dry); causes(err) != tt.want {
				t.Errorf("%s, by %s: %s, want %s", tt.reason, way, causes(err), tt.want)
			}
		}
	}
	plain.DeletionTimestamp = ptr.To(metav1.Now())
	plain.Status.Phase = corev1.PodRunning
	if updated, err := pods.UpdateStatus(t.Context(), plain, update); err != nil || updated.DeletionTimestamp != nil || updated.Status.Phase != corev1.PodRunning {
		t.Errorf("a status with the pod's end in it: %s, %v", causes(err), updated.DeletionTimestamp)
	}
}

// The volumes of a pod that have to do with certificates are checked before a
// node mounts them.
func TestProjectedVolumes(t *testing.T) {
	w := start(t)
	bundle := func(p corev1.ClusterTrustBundleProjection) corev1.VolumeProjection {
		return corev1.VolumeProjection{ClusterTrustBundle: &p}
	}
	certificate := func(edit func(*corev1.PodCertificateProjection)) corev1.VolumeProjection {
		p := &corev1.PodCertificateProjection{SignerName: "example.com/signer", KeyType: "ED25519", KeyPath: "key"}
		edit(p)
		return corev1.VolumeProjection{PodCertificate: p}
	}
	lasts := func(signerName string, seconds int32) corev1.VolumeProjection {
		return certificate(func(p *corev1.PodCertificateProjection) {
			p.SignerName, p.MaxExpirationSeconds = signerName, &seconds
		})
	}
	text := func(s string) *string { return &s }
	everything := &metav1.LabelSelector{}
	const at = "422 spec.volumes[0].projected"
	const trust, cert = at + ".sources[0].clusterTrustBundle", at + ".sources[0].podCertificate"

	for _, tt := range []struct {
		reason string
		want   string
		source corev1.VolumeProjection
	}{
		{"trust by name", "<nil>", bundle(corev1.ClusterTrustBundleProjection{Name: text("x"), Path: "p"})},
		{"trust by the name of a signer's", "<nil>", bundle(corev1.ClusterTrustBundleProjection{Name: text("example.com:signer:x"), Path: "a/p"})},
		{"trust by signer", "<nil>", bundle(corev1.ClusterTrustBundleProjection{SignerName: text("example.com/signer"), LabelSelector: everything, Path: "p"})},
		{"by both", trust + ": FieldValueInvalid", bundle(corev1.ClusterTrustBundleProjection{Name: text("x"), SignerName: text("example.com/signer"), Path: "p"})},
		{"by neither", trust + ": FieldValueRequired", bundle(corev1.ClusterTrustBundleProjection{Path: "p"})},
		{"by an empty name", trust + ".name: FieldValueRequired, " + trust + ".name: FieldValueInvalid", bundle(corev1.ClusterTrustBundleProjection{Name: text(""), Path: "p"})},
		{"by a bad name", trust + ".name: FieldValueInvalid", bundle(corev1.ClusterTrustBundleProjection{Name: text("X"), Path: "p"})},
		{"by half a name", trust + ".name: FieldValueInvalid", bundle(corev1.ClusterTrustBundleProjection{Name: text("example.com:signer:"), Path: "p"})},
		{"by name and labels", trust + ".labelSelector: FieldValueInvalid", bundle(corev1.ClusterTrustBundleProjection{Name: text("x"), LabelSelector: everything, Path: "p"})},
		{"by a bad signer", trust + ".signerName: FieldValueInvalid", bundle(corev1.ClusterTrustBundleProjection{SignerName: text("signer"), Path: "p"})},
		{"by an empty signer", trust + ".signerName: FieldValueRequired, " + trust + ".signerName: FieldValueRequired", bundle(corev1.ClusterTrustBundleProjection{SignerName: text(""), Path: "p"})},
		{"by bad labels", trust + ".labelSelector.matchLabels: FieldValueInvalid",
			bundle(corev1.ClusterTrustBundleProjection{SignerName: text("example.com/signer"), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "/"}}, Path: "p"})},
		{"trust nowhere", trust + ".path: FieldValueRequired", bundle(corev1.ClusterTrustBundleProjection{Name: text("x")})},
		{"trust at an absolute path", trust + ".path: FieldValueInvalid", bundle(corev1.ClusterTrustBundleProjection{Name: text("x"), Path: "/p"})},
		{"trust outside", trust + ".path: FieldValueInvalid", bundle(corev1.ClusterTrustBundleProjection{Name: text("x"), Path: "a/../../p"})},
		{"trust in the volume's own place", trust + ".path: FieldValueInvalid", bundle(corev1.ClusterTrustBundleProjection{Name: text("x"), Path: "..data"})},

		{"a certificate", "<nil>", certificate(func(p *corev1.PodCertificateProjection) {
			p.CredentialBundlePath, p.CertificateChainPath, p.UserAnnotations = "bundle", "chain", map[string]string{"example.com/A": "b"}
		})},
		{"of nobody", cert + ".signerName: FieldValueRequired", certificate(func(p *corev1.PodCertificateProjection) { p.SignerName = "" })},
		{"of a bad signer", cert + ".signerName: FieldValueInvalid", certificate(func(p *corev1.PodCertificateProjection) { p.SignerName = "signer" })},
		{"with no kind of key", cert + ".keyType: FieldValueNotSupported", certificate(func(p *corev1.PodCertificateProjection) { p.KeyType = "" })},
		{"with a kind in lower case", cert + ".keyType: FieldValueNotSupported", certificate(func(p *corev1.PodCertificateProjection) { p.KeyType = "ed25519" })},
		{"nowhere", cert + ": FieldValueRequired", certificate(func(p *corev1.PodCertificateProjection) { p.KeyPath = "" })},
		{"at an absolute path", cert + ".keyPath: FieldValueInvalid", certificate(func(p *corev1.PodCertificateProjection) { p.KeyPath = "/key" })},
		{"chain and key in one file", at + ": FieldValueInvalid", certificate(func(p *corev1.PodCertificateProjection) { p.CertificateChainPath = "key" })},
		{"with a note of no domain", cert + ".userAnnotations: FieldValueInvalid", certificate(func(p *corev1.PodCertificateProjection) { p.UserAnnotations = map[string]string{"a": "b"} })},
		{"with a large note", cert + ".userAnnotations: FieldValueTooLong", certificate(func(p *corev1.PodCertificateProjection) {
			p.UserAnnotations = map[string]string{"example.com/a": strings.Repeat("b", 256<<10)}
		})},
		{"for an hour", "<nil>", lasts("example.com/signer", 3600)},
		{"for less", cert + ".maxExpirationSeconds: FieldValueInvalid", lasts("example.com/signer", 3599)},
		{"for 91 days", "<nil>", lasts("example.com/signer", 91*86400)},
		{"for more", cert + ".maxExpirationSeconds: FieldValueInvalid", lasts("example.com/signer", 91*86400+1)},
		{"for a day, of Kubernetes", "<nil>", lasts("a.kubernetes.io/signer", 86400)},
		{"for more, of Kubernetes", cert + ".maxExpirationSeconds: FieldValueInvalid", lasts("kubernetes.io/signer", 86401)},
		{"for more, of k8s.io", "<nil>", lasts("k8s.io/signer", 86401)},
		{"two kinds in one source", at + ".sources[0]: FieldValueForbidden", corev1.VolumeProjection{
			ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: text("x"), Path: "p"},
			PodCertificate:     &corev1.PodCertificateProjection{SignerName: "example.com/signer", KeyType: "ED25519", KeyPath: "key"},
		}},
		{"nothing in a source", "<nil>", corev1.VolumeProjection{}},
	} {
		pod := newPod("projected")
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{tt.source}},
		}}}
		_, err := w.core.Pods(w.namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if causes(err) != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, causes(err), tt.want)
		}
	}
}

// Two sources must not write one file.
func TestProjectedFilesAreDifferent(t *testing.T) {
	w := start(t)
	trust := func(path string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: ptr.To("x"), Path: path}}
	}
	items := []corev1.KeyToPath{{Key: "a", Path: "p"}}
	name := corev1.LocalObjectReference{Name: "x"}
	for reason, other := range map[string]corev1.VolumeProjection{
		"trust":       trust("p"),
		"certificate": {PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/signer", KeyType: "ED25519", CertificateChainPath: "p"}},
		"secret":      {Secret: &corev1.SecretProjection{LocalObjectReference: name, Items: items}},
		"config map":  {ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name, Items: items}},
		"metadata":    {DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "p", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}},
	} {
		for path, want := range map[string]string{"p": "422 spec.volumes[0].projected: FieldValueInvalid", "p/q": "<nil>"} {
			pod := newPod("projected")
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{other, trust(path)}},
			}}}
			_, err := w.core.Pods(w.namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if causes(err) != want {
				t.Errorf("%s and %s: %s, want %s", reason, path, causes(err), want)
			}
		}
	}
}

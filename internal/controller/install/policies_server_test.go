package install_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/server"
)

func policiesOf(t *testing.T, s *apitest.Server) dynamic.ResourceInterface {
	t.Helper()
	return stored(t, s, "certificatepolicies")
}

func networks(policy *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedStringSlice(policy.Object, "spec", "certificate", "names", "ip", "cidrs")
	if len(list) != 1 {
		return ""
	}
	return list[0]
}

// Policies are kept up to date until a user changes them, and come back.
func TestPoliciesAreInstalledAndKept(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) {
		c.Policy.Install = []string{"kubelet-serving", "no-system-identities"}
		c.Policy.KubeletServing = policies.KubeletServing{NodeZones: []string{"nodes.example.com"}, NodeCIDRs: []string{"10.0.0.0/8"}}
	})
	api := policiesOf(t, s)
	first := await(t, api, "kubelet-serving", func(u *unstructured.Unstructured) bool { return networks(u) == "10.0.0.0/8" })
	await(t, api, "no-system-identities", there)
	if err := api.Delete(t.Context(), "kubelet-serving", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, api, "kubelet-serving", func(u *unstructured.Unstructured) bool { return u.GetUID() != first.GetUID() })

	s.Config.Policy.KubeletServing.NodeCIDRs = []string{"10.1.0.0/16"}
	s.Restart(t)
	api = policiesOf(t, s)
	await(t, api, "kubelet-serving", func(u *unstructured.Unstructured) bool { return networks(u) == "10.1.0.0/16" })
	own := []byte(`{"spec": {"certificate": {"names": {"ip": {"cidrs": ["10.2.0.0/16"]}}}}}`)
	if _, err := api.Patch(t.Context(), "kubelet-serving", types.MergePatchType, own, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitChangedByHand(t, s, "CertificatePolicy", "kubelet-serving", "spec")
	if kept := await(t, api, "kubelet-serving", there); networks(kept) != "10.2.0.0/16" {
		t.Errorf("the change by hand is gone: %s", networks(kept))
	}
}

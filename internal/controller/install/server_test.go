package install_test

import (
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// stored returns the client for a resource of certplane.dev.
func stored(t *testing.T, s *apitest.Server, resource string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(v1alpha1.GroupVersion.WithResource(resource))
}

func signersOf(t *testing.T, s *apitest.Server) dynamic.ResourceInterface {
	t.Helper()
	return stored(t, s, "signers")
}

// await returns the named object once it is as wanted.
func await(t *testing.T, objects dynamic.ResourceInterface, name string, wanted func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	apitest.Eventually(t, name+" is as wanted", func() bool {
		var err error
		found, err = objects.Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && wanted(found)
	})
	return found
}

// awaitChangedByHand waits for the Event that says that an object stays, and
// names the fields.
func awaitChangedByHand(t *testing.T, s *apitest.Server, kind, name, fields string) {
	t.Helper()
	awaitEvent(t, s, "ChangedByHand", kind, name, fields)
}

// awaitEvent waits for an Event about an object that has a text.
func awaitEvent(t *testing.T, s *apitest.Server, reason, kind, name, text string) {
	t.Helper()
	client := apitest.Client(t, s.Admin(t))
	apitest.Eventually(t, "an Event "+reason+" about "+name, func() bool {
		list, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == reason && strings.Contains(e.Note, text) && e.Regarding.Kind == kind && e.Regarding.Name == name
		})
	})
}

func there(*unstructured.Unstructured) bool { return true }

func uris(signer *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(signer.Object, "spec", "profile", "names", "uris")
	return text
}

func TestSignersAreInstalledAndKept(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) {
		c.PodSigners.Install = []string{"spiffe", "service-dns", "kube-apiserver-client-pod"}
		c.PodSigners.TrustDomain = "example.org"
	})
	signers := signersOf(t, s)
	spiffe := await(t, signers, "spiffe", there)
	if !strings.Contains(uris(spiffe), `"spiffe://example.org/ns/"`) {
		t.Errorf("it gives %s", uris(spiffe))
	}
	await(t, signers, "service-dns", there)
	await(t, signers, "kube-apiserver-client-pod", there)

	if err := signers.Delete(t.Context(), "spiffe", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := await(t, signers, "spiffe", func(u *unstructured.Unstructured) bool { return u.GetUID() != spiffe.GetUID() })

	// What other clients add stays, and what certplane brings is still updated.
	own := []byte(`{"spec": {"profile": {"keyTypes": ["ECDSAP256"]}}, "metadata": {"labels": {"team": "a"}}}`)
	if _, err := signers.Patch(t.Context(), "spiffe", types.MergePatchType, own, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Config.PodSigners.TrustDomain = "example.com"
	s.Restart(t)
	updated := await(t, signersOf(t, s), "spiffe", func(u *unstructured.Unstructured) bool { return strings.Contains(uris(u), "example.com") })
	keys, _, _ := unstructured.NestedStringSlice(updated.Object, "spec", "profile", "keyTypes")
	if len(keys) != 1 || updated.GetLabels()["team"] != "a" || updated.GetUID() != again.GetUID() {
		t.Errorf("others' fields are gone: %v", updated.Object)
	}
}

func TestChangesByHandStay(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) {
		c.PodSigners.Install, c.PodSigners.TrustDomain = []string{"spiffe"}, "example.org"
	})
	signers := signersOf(t, s)
	await(t, signers, "spiffe", there)
	own := []byte(`{"spec": {"profile": {"lifetime": {"maximum": "12h"}}}}`)
	if _, err := signers.Patch(t.Context(), "spiffe", types.MergePatchType, own, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitChangedByHand(t, s, "Signer", "spiffe", "spec.profile.lifetime.maximum")
	kept := await(t, signers, "spiffe", there)
	if maximum, _, _ := unstructured.NestedString(kept.Object, "spec", "profile", "lifetime", "maximum"); maximum != "12h" {
		t.Errorf("the change by hand is gone: %s", maximum)
	}
}

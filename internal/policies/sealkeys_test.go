package policies_test

import (
	"context"
	"crypto/ed25519"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
)

// Keys are those of all namespaces that can be read; none is an error that says why.
func TestReadSealKeys(t *testing.T) {
	published := func(namespace string, n byte) *corev1.ConfigMap {
		text, err := policies.EncodeSealKeys([]ed25519.PublicKey{append(make(ed25519.PublicKey, ed25519.PublicKeySize-1), n)})
		if err != nil {
			t.Fatal(err)
		}
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: rights.ApprovalKeys},
			Data:       map[string]string{policies.SealKeysField: string(text)},
		}
	}
	broken := published("broken", 1)
	broken.Data[policies.SealKeysField] = "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n"
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(published("a", 1), published("b", 2), broken).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if key.Namespace == "secret" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, key.Name, nil)
			}
			return api.Get(ctx, key, into, options...)
		},
	})
	for _, tt := range []struct {
		namespaces string
		keys       int
		want       string
	}{
		{"a", 1, ""},
		{"a b none secret broken", 2, ""},
		{"none other", 0, "are not published: the ConfigMap certplane-approval-keys does not exist in none or other"},
		{"none secret", 0, "is forbidden"},
		{"broken", 0, "in the ConfigMap broken/certplane-approval-keys"},
	} {
		keys, err := policies.ReadSealKeys(t.Context(), api, strings.Fields(tt.namespaces))
		if len(keys) != tt.keys || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d keys, %v", tt.namespaces, len(keys), err)
		}
	}
}

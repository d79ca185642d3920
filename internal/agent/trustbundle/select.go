// Package trustbundle finds the anchors that a pod's volume requests.
package trustbundle

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// maxSelector bounds the work that one selector causes, in bytes of its text.
const maxSelector = 100 * 1024

// Select returns the anchors that source names among all bundles: each once, as bare PEM
// blocks, in an order that is the same in each call and on each host, so that a file is
// written only when its content changes. If no bundle is selected, Select returns an error,
// or no bytes if source is optional.
func Select(bundles []*certificatesv1.ClusterTrustBundle, source *corev1.ClusterTrustBundleProjection) ([]byte, error) {
	chosen, what, err := choose(bundles, source)
	if err != nil {
		return nil, err
	}
	optional := source.Optional != nil && *source.Optional
	if len(chosen) == 0 && !optional {
		return nil, fmt.Errorf("there is no %s", what)
	}
	return anchors(chosen), nil
}

// choose returns the bundles that source means, and a text that describes them.
func choose(bundles []*certificatesv1.ClusterTrustBundle, source *corev1.ClusterTrustBundleProjection) ([]*certificatesv1.ClusterTrustBundle, string, error) {
	matches, what, err := matcher(source)
	if err != nil {
		return nil, "", err
	}
	var chosen []*certificatesv1.ClusterTrustBundle
	for _, bundle := range bundles {
		if matches(bundle) {
			chosen = append(chosen, bundle)
		}
	}
	return chosen, what, nil
}

func matcher(source *corev1.ClusterTrustBundleProjection) (func(*certificatesv1.ClusterTrustBundle) bool, string, error) {
	if source.Name != nil {
		named := func(b *certificatesv1.ClusterTrustBundle) bool { return b.Name == *source.Name }
		return named, fmt.Sprintf("ClusterTrustBundle %q", *source.Name), nil
	}
	if source.SignerName == nil {
		return nil, "", fmt.Errorf("neither name nor signerName is set")
	}
	// A missing selector selects no bundles, and an empty one selects all, as for labels
	// elsewhere.
	selector, err := metav1.LabelSelectorAsSelector(source.LabelSelector)
	if err != nil {
		return nil, "", fmt.Errorf("reading the label selector: %w", err)
	}
	if n := len(selector.String()); n > maxSelector {
		return nil, "", fmt.Errorf("the label selector is %d bytes long, more than %d", n, maxSelector)
	}
	ofSigner := func(b *certificatesv1.ClusterTrustBundle) bool {
		return b.Spec.SignerName == *source.SignerName && selector.Matches(labels.Set(b.Labels))
	}
	return ofSigner, fmt.Sprintf("ClusterTrustBundle of signer %q with labels %q", *source.SignerName, selector), nil
}

// anchors joins the certificates of bundles. The API has checked the
// certificates.
func anchors(bundles []*certificatesv1.ClusterTrustBundle) []byte {
	var all [][]byte
	for _, bundle := range bundles {
		rest := []byte(bundle.Spec.TrustBundle)
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			all = append(all, block.Bytes)
		}
	}
	slices.SortFunc(all, bytes.Compare)
	all = slices.CompactFunc(all, bytes.Equal)
	out := []byte{}
	for _, der := range all {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

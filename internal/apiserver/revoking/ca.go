package revoking

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// checkCA refuses the certificate of a generated CA that signs now: it can be replaced without
// harm first. It warns of a root, which is on no list.
func (r *Revoker) checkCA(ctx context.Context, t *target, cas knownCAs) *field.Error {
	signers, err := r.Signers(ctx)
	if err != nil {
		return field.InternalError(t.path, err)
	}
	for _, signer := range signers {
		if ca := signer.Status.CA; ca != nil && signer.Spec.CA.Generated != nil && t.has(ca.Fingerprint) {
			return field.Forbidden(t.path, fmt.Sprintf("is the CA with which the Signer %s signs: rotate it first (certplane.dev/rotate-ca)", signer.Name))
		}
	}
	known, err := cas()
	if err != nil {
		return field.InternalError(t.path, err)
	}
	root := ""
	var bundles []string
	for _, ca := range known {
		if fingerprint := pki.Fingerprint(ca.Certificate); t.has(fingerprint) && bytes.Equal(ca.Certificate.RawIssuer, ca.Certificate.RawSubject) {
			root = fingerprint
			if ca.Bundle != "" {
				bundles = append(bundles, ca.Bundle)
			}
		}
	}
	switch {
	case len(bundles) > 0:
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: is on no revocation list, because no CA is above it: remove it from trust: kubectl delete clustertrustbundle %s (for a declared Signer, add %s to spec.distrustedCAs)",
			t.path, strings.Join(bundles, " "), root))
	case root != "":
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: is on no revocation list, because no CA is above it: remove it from the files of clients", t.path))
	}
	return nil
}

// has reports whether a fingerprint is one of the certificate's two.
func (t *target) has(fingerprint string) bool {
	for _, own := range t.entry.Fingerprints {
		if own != (revocation.Digest{}) && strings.HasPrefix(fingerprint, hex.EncodeToString(own[:])) {
			return true
		}
	}
	return false
}

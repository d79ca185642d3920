package policies

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/rights"
)

// SealKeysField is the field of the ConfigMap rights.ApprovalKeys with the server's
// public keys for approvals, in PEM. Nothing that decides for the server reads it.
const SealKeysField = "keys.pem"

// publicKeyBlock is the label of PEM blocks with public keys (RFC 7468, section 13).
const publicKeyBlock = "PUBLIC KEY"

// EncodeSealKeys returns public keys in PEM, in their order.
func EncodeSealKeys(keys []ed25519.PublicKey) ([]byte, error) {
	var text []byte
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, fmt.Errorf("encoding a key that verifies approvals: %w", err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: der})...)
	}
	return text, nil
}

// ParseSealKeys returns the public keys in PEM text, in their order. There may be
// none; text outside of blocks is ignored.
func ParseSealKeys(text []byte) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return keys, nil
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, errors.New("each key must be a public Ed25519 key")
		}
		keys = append(keys, key)
	}
}

// ReadSealKeys returns the public keys that are published in some of the namespaces,
// for verifying approvals outside of the server. It is an error if there are none that
// can be read.
func ReadSealKeys(ctx context.Context, api client.Reader, namespaces []string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	var errs []error
	for _, namespace := range namespaces {
		config := &corev1.ConfigMap{}
		err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: rights.ApprovalKeys}, config)
		if apierrors.IsNotFound(err) {
			continue
		}
		var published []ed25519.PublicKey
		if err == nil {
			published, err = ParseSealKeys([]byte(config.Data[SealKeysField]))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the keys that verify approvals, in the ConfigMap %s/%s: %w", namespace, rights.ApprovalKeys, err))
		}
		keys = append(keys, published...)
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	}
	return nil, fmt.Errorf("the keys that verify approvals are not published: the ConfigMap %s does not exist in %s", rights.ApprovalKeys, strings.Join(namespaces, " or "))
}

// HasVotes reports whether conditions have approvals of people that are votes.
func HasVotes(conditions []quorum.Condition) bool {
	return slices.ContainsFunc(conditions, func(c quorum.Condition) bool { return quorum.IsVote(c.Type) })
}

// VerifiedBy returns a function that opens sealed approvals with public keys.
func VerifiedBy(keys []ed25519.PublicKey) quorum.OpenFunc {
	return func(text string) (quorum.Record, error) { return quorum.Open(keys, text) }
}

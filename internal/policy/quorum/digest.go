package quorum

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
)

// content is what people approve. Its JSON is hashed: fields may be added only
// with omitzero, and never change their meaning.
type content struct {
	Kind     v1alpha1.RequestKind    `json:"kind"`
	Signer   string                  `json:"signer,omitzero"`
	Issuer   *cmmeta.IssuerReference `json:"issuer,omitzero"`
	Request  []byte                  `json:"request,omitzero"`
	Usages   []string                `json:"usages,omitzero"`
	Duration *time.Duration          `json:"duration,omitzero"`
	IsCA     bool                    `json:"isCA,omitzero"`
	// Annotations are those that change what an issuer issues.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Digest returns the digest of what a CertificateSigningRequest or
// CertificateRequest asks for, as sha256: and hexadecimal digits. It covers the
// annotations that issuers obey, as they can still be changed after a vote.
func Digest(r request.Request) string {
	c := content{
		Kind: r.Kind, Signer: r.SignerName, Request: r.PEM, Usages: slices.Sorted(slices.Values(r.Usages)),
		Duration: r.Duration, IsCA: r.IsCA, Annotations: map[string]string{},
	}
	if r.Issuer != nil {
		ref := r.Issuer.Reference()
		c.Issuer = &ref
	}
	for _, key := range []string{request.AnnotationIsCA, request.AnnotationDuration, request.AnnotationKey} {
		if value, ok := r.ObjectAnnotations[key]; ok {
			c.Annotations[key] = value
		}
	}
	// Marshalling strings, numbers and maps of strings cannot fail.
	data, _ := json.Marshal(c)
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

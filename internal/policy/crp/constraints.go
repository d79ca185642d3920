package crp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"strconv"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

var (
	constraintsPath = field.NewPath("spec", "constraints")
	privateKeyPath  = constraintsPath.Child("privateKey")
)

// checkConstraints returns which limits the request exceeds. An error means that
// it cannot be evaluated.
func checkConstraints(limits *approverpolicy.Constraints, c *content) (field.ErrorList, error) {
	if limits == nil {
		return nil, nil
	}
	requested := c.request.Spec.Duration
	errs := checkDuration(constraintsPath.Child("maxDuration"), limits.MaxDuration, requested, func(limit, d time.Duration) bool { return d <= limit })
	errs = append(errs, checkDuration(constraintsPath.Child("minDuration"), limits.MinDuration, requested, func(limit, d time.Duration) bool { return d >= limit })...)
	if limits.PrivateKey == nil {
		return errs, nil
	}
	ofKey, err := checkKey(limits.PrivateKey, c.key)
	return append(errs, ofKey...), err
}

func checkDuration(path *field.Path, limit, requested *metav1.Duration, within func(limit, requested time.Duration) bool) field.ErrorList {
	switch {
	case limit == nil:
		return nil
	case requested == nil:
		return field.ErrorList{field.Invalid(path, "nil", limit.Duration.String())}
	case !within(limit.Duration, requested.Duration):
		return field.ErrorList{field.Invalid(path, requested.Duration.String(), limit.Duration.String())}
	}
	return nil
}

func checkKey(limits *approverpolicy.PrivateKeyConstraints, key crypto.PublicKey) (field.ErrorList, error) {
	algorithm, size, err := describeKey(key)
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	if limits.Algorithm != nil && *limits.Algorithm != algorithm {
		errs = append(errs, field.Invalid(privateKeyPath.Child("algorithm"), string(algorithm), string(*limits.Algorithm)))
	}
	if limits.MaxSize != nil && size > *limits.MaxSize {
		errs = append(errs, field.Invalid(privateKeyPath.Child("maxSize"), strconv.Itoa(size), strconv.Itoa(*limits.MaxSize)))
	}
	if limits.MinSize != nil && size < *limits.MinSize {
		errs = append(errs, field.Invalid(privateKeyPath.Child("minSize"), strconv.Itoa(size), strconv.Itoa(*limits.MinSize)))
	}
	return errs, nil
}

// describeKey returns the algorithm and the size in bits, which is -1 for keys
// of one size.
func describeKey(key crypto.PublicKey) (cmv1.PrivateKeyAlgorithm, int, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return cmv1.RSAKeyAlgorithm, key.N.BitLen(), nil
	case *ecdsa.PublicKey:
		return cmv1.ECDSAKeyAlgorithm, key.Curve.Params().BitSize, nil
	case ed25519.PublicKey:
		return cmv1.Ed25519KeyAlgorithm, -1, nil
	}
	return "", 0, fmt.Errorf("unrecognised public key type %T", key)
}

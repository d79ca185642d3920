package explain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// findSecret reads the metadata of a Secret, and its data only with contents.
func findSecret(ctx context.Context, api Reader, namespace, name string, contents bool) (*corev1.Secret, Result, error) {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	found, metadata := &corev1.Secret{}, &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	var answer Result
	var err error
	if contents {
		answer, err = exists(ctx, api, key, found)
	} else {
		answer, err = exists(ctx, api, key, metadata)
		found.ObjectMeta = metadata.ObjectMeta
	}
	if answer != Yes {
		return nil, answer, err
	}
	return found, Yes, nil
}

// secretKey is a key of a Secret that a controller needs. The content of the
// Secret is not read.
type secretKey struct {
	namespace, secret, key string
	// what is the content of the key, for example "the request's private key".
	what string
	// exists reports whether the Secret exists.
	exists Result
}

// find looks for the Secret.
func (s *secretKey) find(ctx context.Context, api Reader) (err error) {
	_, s.exists, err = findSecret(ctx, api, s.namespace, s.secret, false)
	return err
}

func (s *secretKey) check(name string) Check {
	switch s.exists {
	case No:
		return Check{name, No, fmt.Sprintf("the Secret %s does not exist; it should contain %s under the key %s", s.secret, s.what, s.key)}
	case Unknown:
		return Check{name, Unknown, mayNotRead("get", "secrets", s.namespace)}
	default:
		return Check{name, Yes, fmt.Sprintf("should be in Secret %s, which exists, under the key %s", s.secret, s.key)}
	}
}

// steps returns the step that puts the key into the Secret. reported is true if a
// controller has reported it missing.
func (s *secretKey) steps(q Query, reported bool) []Step {
	switch {
	case s.exists == No:
		return []Step{step(fmt.Sprintf("Create the Secret with %s under the key %s; everything that waits for it then continues automatically:", s.what, s.key),
			q.kubectl("create", "secret", "generic", "-n", s.namespace, s.secret, "--from-file="+s.key+"=FILE"))}
	case reported:
		return []Step{step(fmt.Sprintf("In Secret %s, %s belongs under the key %s. To list the Secret's keys, without their values:", s.secret, s.what, s.key),
			q.kubectl("describe", "secret", "-n", s.namespace, s.secret))}
	}
	return nil
}

package projection

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Certificate returns the files of a key and its chain, both in PEM.
func Certificate(source *corev1.PodCertificateProjection, key, chain []byte) []Part {
	var parts []Part
	add := func(path string, data []byte, secret bool) {
		if path != "" {
			parts = append(parts, Part{Path: path, Data: data, Secret: secret, User: source.User})
		}
	}
	add(source.CredentialBundlePath, slices.Concat(key, chain), true)
	add(source.KeyPath, key, true)
	add(source.CertificateChainPath, chain, false)
	return parts
}

// TrustBundle returns the file of trust anchors, which are in PEM.
func TrustBundle(source *corev1.ClusterTrustBundleProjection, anchors []byte) []Part {
	return []Part{{Path: source.Path, Data: anchors, User: source.User}}
}

// Token returns the file of a service account token.
func Token(source *corev1.ServiceAccountTokenProjection, token []byte) []Part {
	return []Part{{Path: source.Path, Data: token, Secret: true, User: source.User}}
}

// ConfigMap returns the files of a ConfigMap: the items in source, or all items if it lists
// none. object is nil if the ConfigMap does not exist.
func ConfigMap(source *corev1.ConfigMapProjection, object *corev1.ConfigMap) ([]Part, error) {
	optional := source.Optional != nil && *source.Optional
	if object == nil {
		if optional {
			return nil, nil
		}
		return nil, fmt.Errorf("the ConfigMap %q does not exist", source.Name)
	}
	data := maps.Clone(object.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	parts, err := items(source.Items, data, optional, false)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %q: %w", source.Name, err)
	}
	return parts, nil
}

// Secret returns the files of a Secret, like ConfigMap.
func Secret(source *corev1.SecretProjection, object *corev1.Secret) ([]Part, error) {
	optional := source.Optional != nil && *source.Optional
	if object == nil {
		if optional {
			return nil, nil
		}
		return nil, fmt.Errorf("the Secret %q does not exist", source.Name)
	}
	parts, err := items(source.Items, object.Data, optional, true)
	if err != nil {
		return nil, fmt.Errorf("Secret %q: %w", source.Name, err)
	}
	return parts, nil
}

func items(wanted []corev1.KeyToPath, data map[string][]byte, optional, secret bool) ([]Part, error) {
	if len(wanted) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			wanted = append(wanted, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	var parts []Part
	for _, item := range wanted {
		value, found := data[item.Key]
		switch {
		case found:
			parts = append(parts, Part{Path: item.Path, Data: value, Secret: secret, Mode: item.Mode, User: item.User})
		case !optional:
			return nil, fmt.Errorf("it has no key %q", item.Key)
		}
	}
	return parts, nil
}

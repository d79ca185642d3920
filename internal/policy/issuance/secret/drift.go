package secret

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Drift describes how a Secret differs from its Certificate where that needs no new
// certificate. It is empty if the Secret matches.
type Drift string

// The drifts, in the order in which they are checked.
const (
	TemplateMismatch      Drift = "SecretTemplateMismatch"
	MetadataMismatch      Drift = "SecretManagedMetadataMismatch"
	OutputFormatsMismatch Drift = "AdditionalOutputFormatsMismatch"
	KeystoreMismatch      Drift = "SecretMismatch"
	OwnerMismatch         Drift = "SecretOwnerRefMismatch"
	ManagedFieldsError    Drift = "ManagedFieldsParseError"
)

// managedLabel is the label that caches select the Secrets of Certificates with.
const managedLabel = cmv1.PartOfCertManagerControllerLabelKey

// Drift compares a Secret with its wanted content, that of Existing. If there
// is a drift, the caller must apply the content again. Everything that the
// Certificate requests must exist and be owned by FieldManager, even if other
// managers own it too. A field that FieldManager has written and that is no
// longer requested is a drift. Other labels, annotations and data are ignored.
// Keystores are only compared if their password is known.
func (c Content) Drift(s *corev1.Secret, owned bool, passwords Passwords) (Drift, error) {
	managed, err := c.managed()
	if err != nil {
		return "", err
	}
	formats, err := c.formats()
	if err != nil {
		return "", err
	}
	stored, err := writtenBy(s, FieldManager)
	if err != nil {
		return ManagedFieldsError, nil
	}
	desired, err := c.annotations()
	if err != nil {
		return "", err
	}
	outdated, err := c.storesOutdated(s, passwords)
	if err != nil {
		return "", err
	}
	labels := c.labels()
	switch {
	case c.templateDiffers(s, managed, stored) || hasStale(stored.annotations, desired) || hasStale(stored.labels, labels):
		return TemplateMismatch, nil
	case differs(s.Annotations, stored.annotations, managed) || differs(s.Labels, stored.labels, map[string]string{managedLabel: labels[managedLabel]}):
		return MetadataMismatch, nil
	case c.formatsDiffer(s, formats, stored.data):
		return OutputFormatsMismatch, nil
	case c.storesDiffer(s, stored.data) || outdated:
		return KeystoreMismatch, nil
	case ownerDiffers(isOwned(s, c.Certificate.UID), stored.owner, owned):
		return OwnerMismatch, nil
	}
	return "", nil
}

// templateDiffers ignores annotations of the template that have no effect
// because the Secret's own annotations take precedence.
func (c Content) templateDiffers(s *corev1.Secret, managed map[string]string, stored written) bool {
	template := c.Certificate.Spec.SecretTemplate
	if template == nil {
		return false
	}
	annotations := maps.Clone(template.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { _, has := managed[key]; return has })
	labels := maps.Clone(template.Labels)
	delete(labels, managedLabel)
	return differs(s.Annotations, stored.annotations, annotations) || differs(s.Labels, stored.labels, labels)
}

// differs reports whether a wanted entry is missing, has another value, or was
// not written by FieldManager.
func differs(have map[string]string, written []string, want map[string]string) bool {
	for key, value := range want {
		if got, has := have[key]; !has || got != value || !slices.Contains(written, key) {
			return true
		}
	}
	return false
}

// ownerDiffers reports whether the Certificate should be the Secret's owner and
// is not, or was not made so by FieldManager, or the other way round.
func ownerDiffers(is, written, wanted bool) bool {
	if wanted {
		return !is || !written
	}
	return is && written
}

// hasStale reports whether an entry has been written that is no longer wanted.
func hasStale(written []string, want map[string]string) bool {
	return slices.ContainsFunc(written, func(key string) bool { _, wanted := want[key]; return !wanted })
}

func (c Content) formatsDiffer(s *corev1.Secret, want map[string][]byte, written []string) bool {
	for key, value := range want {
		if !bytes.Equal(s.Data[key], value) || !slices.Contains(written, key) {
			return true
		}
	}
	return slices.ContainsFunc(formatKeys, func(key string) bool { return want[key] == nil && slices.Contains(written, key) })
}

func (c Content) storesDiffer(s *corev1.Secret, written []string) bool {
	wanted := c.wantedStores()
	return slices.ContainsFunc(storeKeys, func(key string) bool {
		return wanted[key] && len(s.Data[key]) == 0 || !wanted[key] && slices.Contains(written, key)
	})
}

func isOwned(s *corev1.Secret, uid types.UID) bool {
	return slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// written holds the fields that one manager has applied to a Secret.
type written struct {
	annotations, labels, data []string
	owner                     bool
}

// writtenBy reads it from the Secret's managed fields.
func writtenBy(s *corev1.Secret, manager string) (written, error) {
	var w written
	for _, entry := range s.ManagedFields {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return written{}, fmt.Errorf("reading managed fields of Secret %q: %w", s.Name, err)
		}
		set.Iterate(w.add)
	}
	return w, nil
}

// Writer returns the field manager that last wrote the certificate or the key of a Secret;
// "" if it is certplane's own, or not known.
func Writer(s *corev1.Secret) string {
	var last *metav1.ManagedFieldsEntry
	for i, entry := range s.ManagedFields {
		var set fieldpath.Set
		if entry.FieldsV1 == nil || set.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
			continue
		}
		var w written
		set.Iterate(w.add)
		if !slices.Contains(w.data, corev1.TLSCertKey) && !slices.Contains(w.data, corev1.TLSPrivateKeyKey) {
			continue
		}
		if last == nil || last.Time.Before(entry.Time) {
			last = &s.ManagedFields[i]
		}
	}
	if last == nil || last.Manager == FieldManager {
		return ""
	}
	return last.Manager
}

// add takes the paths of single entries.
func (w *written) add(path fieldpath.Path) {
	var names []string
	for _, element := range path {
		if element.FieldName == nil {
			break
		}
		names = append(names, *element.FieldName)
	}
	switch {
	case len(names) >= 2 && names[0] == "metadata" && names[1] == "ownerReferences":
		w.owner = true
	case len(names) == 3 && names[0] == "metadata" && names[1] == "annotations":
		w.annotations = append(w.annotations, names[2])
	case len(names) == 3 && names[0] == "metadata" && names[1] == "labels":
		w.labels = append(w.labels, names[2])
	case len(names) == 2 && names[0] == "data":
		w.data = append(w.data, names[1])
	}
}

package manifests

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RevocationLists describes a file with the revocation lists of a signer.
type RevocationLists struct {
	// Signer is the name of the signer.
	Signer string
	// Path is the path of the file in its volume.
	Path string
	// DER is set for a file with the list of the issuing CA alone, in DER. Other files have the
	// lists of all CAs of the signer and of those above, in PEM.
	DER bool
}

// ListsPrefix begins the annotations that describe files with revocation lists; the name of the
// volume follows.
const ListsPrefix = "revocationlists.certplane.dev/"

// der is the suffix of a file in DER.
const der = ",der"

// String returns the file as annotations describe it.
func (l RevocationLists) String() string {
	if l.DER {
		return l.Signer + "=" + l.Path + der
	}
	return l.Signer + "=" + l.Path
}

const listsForm = "must be SIGNER=PATH or SIGNER=PATH,der, like example.com/hosts=crl.pem, with spaces between files"

// listsOf returns the files with revocation lists that the annotations of a valid pod describe:
// SIGNER=PATH or SIGNER=PATH,der, with spaces between files.
func listsOf(pod *corev1.Pod) (map[string][]RevocationLists, field.ErrorList) {
	var errs field.ErrorList
	lists := map[string][]RevocationLists{}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		name, is := strings.CutPrefix(key, ListsPrefix)
		if !is {
			continue
		}
		at := field.NewPath("metadata", "annotations").Key(key)
		n := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name && v.Projected != nil })
		if n < 0 {
			errs = append(errs, field.Invalid(at, name, "is not the name of a projected volume of the pod"))
			continue
		}
		taken := paths{}
		validateProjected(pod.Spec.Volumes[n].Projected, taken, field.NewPath("spec", "volumes").Index(n).Child("projected"))
		files := strings.Fields(pod.Annotations[key])
		if len(files) == 0 {
			errs = append(errs, field.Required(at, listsForm))
		}
		for _, text := range files {
			signer, path, _ := strings.Cut(text, "=")
			path, isDER := strings.CutSuffix(path, der)
			if !strings.Contains(signer, "/") || path == "" || strings.Contains(path, ",") {
				errs = append(errs, field.Invalid(at, text, listsForm))
				continue
			}
			errs = append(errs, taken.add(path, at)...)
			lists[name] = append(lists[name], RevocationLists{Signer: signer, Path: path, DER: isDER})
		}
	}
	return lists, errs
}

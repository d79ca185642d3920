package hostcert

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/agent/hook"
	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/api/agenthost"
)

// volumeName is the name of the only volume of a certificate's Pod.
const volumeName = "tls"

// Pods returns the pods of the certificates. It skips certificates whose owner or group
// does not exist on this host; the error names them.
func Pods(all []Certificate) ([]manifests.Pod, error) {
	var pods []manifests.Pod
	var errs []error
	for i, c := range all {
		field := fmt.Sprintf("certificates[%d]", i)
		uid, errOwner := number("owner", "user", c.Owner, userID)
		gid, errGroup := number("group", "group", c.Group, groupID)
		err := errors.Join(errOwner, errGroup)
		var pod manifests.Pod
		if err == nil {
			pod, err = c.pod(uid, gid)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%w", field, err))
			continue
		}
		pod.File, pod.Dirs = field, map[string]string{volumeName: c.Directory}
		pods = append(pods, pod)
	}
	return pods, errors.Join(errs...)
}

// Actions returns what is to be done after refreshes of the certificates.
func Actions(all []Certificate) []hook.Action {
	var actions []hook.Action
	for _, c := range all {
		for _, program := range c.AfterRefresh {
			actions = append(actions, hook.Action{Pod: c.key(), Program: program})
		}
	}
	return actions
}

// pod returns the Pod of a certificate whose files belong to a user and a group; nil means
// the agent's user or group.
func (c Certificate) pod(uid, gid *int64) (manifests.Pod, error) {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: c.name(), Namespace: c.namespace(), Annotations: c.lists()},
		Spec: corev1.PodSpec{
			ServiceAccountName: c.ServiceAccount,
			Volumes: []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: c.sources(), DefaultMode: c.Mode,
			}}}},
		},
	}
	if uid != nil || gid != nil {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: uid, FSGroup: gid}
	}
	made, errs := manifests.New(pod)
	if len(errs) == 0 {
		return made, nil
	}
	// The first error is enough: all fields of the Pod come from a few fields.
	err := errs[0]
	if own, known := fields[err.Field]; known {
		err.Field = own
	}
	if err.Field == "files.crl" && err.BadValue == c.Files.CRLDER {
		err.Field = "files.crlDER"
	}
	return manifests.Pod{}, err
}

// fields are the fields of a certificate by those of its Pod.
var fields = map[string]string{
	"metadata.name":           "name",
	"metadata.namespace":      "namespace",
	"spec.serviceAccountName": "serviceAccount",
	"spec.volumes[0].projected.sources[0].podCertificate.signerName":           "signer",
	"spec.volumes[0].projected.sources[0].podCertificate.keyType":              "keyType",
	"spec.volumes[0].projected.sources[0].podCertificate.maxExpirationSeconds": "duration",
	"spec.volumes[0].projected.sources[0].podCertificate.certificateChainPath": "files.certificate",
	"spec.volumes[0].projected.sources[0].podCertificate.keyPath":              "files.key",
	"spec.volumes[0].projected.sources[0].podCertificate.credentialBundlePath": "files.bundle",
	"spec.volumes[0].projected.sources[1].clusterTrustBundle.path":             "files.roots",
	"metadata.annotations[" + manifests.ListsPrefix + volumeName + "]":         "files.crl",
}

func (c Certificate) sources() []corev1.VolumeProjection {
	files := c.Files.orDefault()
	certificate := &corev1.PodCertificateProjection{
		SignerName: c.Signer, KeyType: c.KeyType, UserAnnotations: c.annotations(),
		CertificateChainPath: files.Certificate, KeyPath: files.Key, CredentialBundlePath: files.Bundle,
	}
	if certificate.KeyType == "" {
		certificate.KeyType = defaultKeyType
	}
	if c.Duration.Duration != 0 {
		certificate.MaxExpirationSeconds = ptr.To(int32(c.Duration.Seconds()))
	}
	sources := []corev1.VolumeProjection{{PodCertificate: certificate}}
	if files.Roots != "" {
		sources = append(sources, corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{
			SignerName: ptr.To(c.Signer), LabelSelector: &metav1.LabelSelector{}, Path: files.Roots,
		}})
	}
	return sources
}

// lists returns the annotations for the files with revocation lists; nil if there are none.
func (c Certificate) lists() map[string]string {
	var files []string
	if c.Files.CRL != "" {
		files = append(files, manifests.RevocationLists{Signer: c.Signer, Path: c.Files.CRL}.String())
	}
	if c.Files.CRLDER != "" {
		files = append(files, manifests.RevocationLists{Signer: c.Signer, Path: c.Files.CRLDER, DER: true}.String())
	}
	if files == nil {
		return nil
	}
	return map[string]string{manifests.ListsPrefix + volumeName: strings.Join(files, " ")}
}

// annotations returns the names for the signer; nil if there are none.
func (c Certificate) annotations() map[string]string {
	var annotations map[string]string
	set := func(key string, values []string) {
		if len(values) == 0 {
			return
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = strings.Join(values, ",")
	}
	set(agenthost.DNSNamesAnnotation, c.DNSNames)
	set(agenthost.IPAddressesAnnotation, c.IPAddresses)
	return annotations
}

// number returns the number of a user or group, which is given by name or
// number; nil if none is given.
func number(field, kind, name string, lookup func(string) (string, error)) (*int64, error) {
	if name == "" {
		return nil, nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err == nil && id >= 0 {
		return &id, nil
	}
	found, err := lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%s: this host has no %s %q: create it, or give its number", field, kind, name)
	}
	if id, err = strconv.ParseInt(found, 10, 64); err != nil {
		return nil, fmt.Errorf("%s: %s %q has the number %q", field, kind, name, found)
	}
	return &id, nil
}

func userID(name string) (string, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return found.Uid, nil
}

func groupID(name string) (string, error) {
	found, err := user.LookupGroup(name)
	if err != nil {
		return "", err
	}
	return found.Gid, nil
}

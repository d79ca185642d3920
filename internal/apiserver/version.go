package apiserver

import (
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	basecompatibility "k8s.io/component-base/compatibility"

	"github.com/certplane/certplane/internal/process/buildinfo"
)

// servedVersion is the Kubernetes version whose API the server implements: the
// version of the Kubernetes libraries that it is built with.
type servedVersion struct {
	basecompatibility.MutableEffectiveVersion
}

func newServedVersion() servedVersion {
	return servedVersion{compatibility.DefaultBuildEffectiveVersion()}
}

// Info returns the answer of /version. Clients compare gitVersion, so it is a
// Kubernetes version; the part after the plus sign is certplane's (semver.org).
func (v servedVersion) Info() *apimachineryversion.Info {
	build := buildinfo.Read()
	info := v.MutableEffectiveVersion.Info()
	info.GitVersion = build.Kubernetes + buildinfo.VersionSuffix
	info.GitCommit, info.GitTreeState, info.BuildDate = build.Revision, "", build.Time
	return info
}

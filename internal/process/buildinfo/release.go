package buildinfo

import "regexp"

// release is the version of a release that is built from a commit without a tag
// of its name: "make release VERSION=v1.2.3" sets it with the linker's flag -X.
// It is empty in other builds.
var release string

// releaseVersion matches the versions of releases and of commits, commitVersion
// those that Go gives to commits without a tag.
var (
	releaseVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
	commitVersion  = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}$`)
)

// IsRelease reports whether the program is of a release.
func (i Info) IsRelease() bool {
	return releaseVersion.MatchString(i.Version) && !commitVersion.MatchString(i.Version) && !i.Modified
}

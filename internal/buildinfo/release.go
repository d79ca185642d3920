package buildinfo

// release is the version of a release that is built from a commit without a tag
// of its name: "make release VERSION=v1.2.3" sets it with the linker's flag -X.
// It is empty in other builds.
var release string

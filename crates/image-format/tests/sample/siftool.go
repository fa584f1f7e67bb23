// Made siftool.sif, as apptainer's assembler makes images (internal/pkg/build/assemblers/sif.go).
// github.com/apptainer/sif/v2 v2.21.1 and github.com/sylabs/sif/v2 v2.20.0 write the same bytes.
//
// go run siftool.go DIRECTORY OUT, where DIRECTORY holds def, env, labels, inspect-metadata.json,
// root.sqsh and up.sqsh.
package main

import (
	"bytes"
	"os"
	"time"

	"github.com/apptainer/sif/v2/pkg/sif"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	directory, out := os.Args[1], os.Args[2]
	var objects []sif.DescriptorInput
	add := func(kind sif.DataType, file string, options ...sif.DescriptorInputOpt) {
		content, err := os.ReadFile(directory + "/" + file)
		must(err)
		object, err := sif.NewDescriptorInput(kind, bytes.NewReader(content), options...)
		must(err)
		objects = append(objects, object)
	}
	metadata := "inspect-metadata.json"
	root := sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, "amd64")
	over := sif.OptPartitionMetadata(sif.FsSquash, sif.PartOverlay, "amd64")
	add(sif.DataDeffile, "def")
	add(sif.DataEnvVar, "env")
	add(sif.DataLabels, "labels")
	add(sif.DataGenericJSON, metadata, sif.OptObjectName(metadata))
	add(sif.DataPartition, "root.sqsh", root)
	add(sif.DataGeneric, "env")
	add(sif.DataPartition, "up.sqsh", over)
	image, err := sif.CreateContainerAtPath(out,
		sif.OptCreateWithDescriptors(objects...),
		sif.OptCreateWithID("3fa085a4-5b1c-8d61-9a77-0d2f3f5f3b11"),
		sif.OptCreateWithTime(time.Unix(1700000000, 0)),
		sif.OptCreateWithLaunchScript("#!/usr/bin/env run-singularity\n"))
	must(err)
	must(image.UnloadContainer())
}

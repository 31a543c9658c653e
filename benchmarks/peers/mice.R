# Fills rows.bin by mice with trees: FOLDER ROWS EXTRA KINDS DRAWS SEED. The last EXTRA rows are
# filled and not learned from; KINDS has a letter for each column, n for numbers, f for levels and
# o for levels in order. Leaves filled.bin, draw after draw and column after column, and mice.txt.
suppressPackageStartupMessages(library(mice))
words <- commandArgs(trailingOnly = TRUE)
rows <- as.integer(words[2])
kinds <- strsplit(words[4], "")[[1]]
draws <- as.integer(words[5])
values <- readBin(file.path(words[1], "rows.bin"), "double", rows * length(kinds))
values[is.nan(values)] <- NA
table <- as.data.frame(matrix(values, rows))
for (j in seq_along(kinds)) {
  if (kinds[j] != "n") table[[j]] <- factor(table[[j]], ordered = kinds[j] == "o")
}
new <- seq_len(rows) > rows - as.integer(words[3])
took <- system.time(
  done <- mice(table, m = draws, method = "cart", ignore = new, printFlag = FALSE,
               seed = as.integer(words[6]))
)["elapsed"]
file <- file(file.path(words[1], "filled.bin"), "wb")
for (k in seq_len(draws)) {
  for (x in complete(done, k)) {
    writeBin(if (is.factor(x)) as.numeric(as.character(x)) else as.numeric(x), file)
  }
}
close(file)
cat(as.character(packageVersion("mice")), took, file = file.path(words[1], "mice.txt"))
